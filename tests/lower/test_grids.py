"""Programmatic dependent launch: where the wait and the start of dependents are derived, and what the launcher is told."""

import pytest
from examples.catalogue import EXAMPLES

from pipec.driver import Compilation, Options, compile_source
from pipec.source import Source

EXAMPLE = (EXAMPLES / "programmatic_launch.pipe").read_text(encoding="utf-8")
WAIT, LAUNCH = "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"


def compiled(text: str) -> Compilation:
    state = compile_source(Source("k.pipe", text), Options())
    assert state.diagnostics == [], [diagnostic.title for diagnostic in state.diagnostics]
    return state


def derived(state: Compilation, kernel: str) -> dict[str, tuple[bool, bool]]:
    (plan,) = (plan for plan in state.plans or [] if plan.kernel.name == kernel)
    return {row.role.name: (row.awaits_grids, row.launches_dependents) for row in plan.roles}


def test_each_role_waits_that_touches_what_a_grid_in_front_may_write() -> None:
    state = compiled(EXAMPLE.replace("        griddepcontrol.wait()", "        pass"))
    assert derived(state, "project") == {
        "load_weights": (False, True),
        "load_inputs": (True, True),
        "mma": (False, False),
        "epilogue": (True, False),
    }
    assert (state.ptx or "").count(WAIT) == 2


def test_without_ready_tensors_the_weights_wait_too() -> None:
    assert derived(compiled(EXAMPLE.replace("launch(w)", "launch()")), "project")["load_weights"] == (True, True)


def test_the_wait_by_hand_compiles_to_the_same_code() -> None:
    by_hand, left_out = compiled(EXAMPLE), compiled(EXAMPLE.replace("        griddepcontrol.wait()", "        pass"))
    codes = [[line for line in (state.ptx or "").splitlines() if ".loc" not in line] for state in (by_hand, left_out)]
    assert [line for line in codes[0] if "//" not in line] == [line for line in codes[1] if "//" not in line]


def test_dependents_start_where_the_author_says() -> None:
    state = compiled(EXAMPLE)
    assert all(not launches for _, launches in derived(state, "activate").values())
    assert (state.ptx or "").split(".entry project")[0].count(LAUNCH) == 1


@pytest.mark.parametrize(("kernel", "programmatic"), [("activate", False), ("project", True)])
def test_the_interface_says_how_to_launch(kernel: str, programmatic: bool) -> None:
    interfaces = {plan.kernel.name: plan.interface for plan in compiled(EXAMPLE).plans or []}
    assert interfaces[kernel].programmatic_launch is programmatic
