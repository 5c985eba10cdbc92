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


ASKS = """
kernel follow(flags: tensor[i32, 4], w: tensor[f32, M, 32], y: tensor[f32, M, 32]):
    grid(ceildiv(M, 64))
    programmatic_launch({ready})
    ring = InputTilePipeline(TilePayload(x=tile[f32, 64, 32]), stages=2)

    role load(warps=1) produces ring:
        {asks}
            with ring.produce() as s:
                tma.load(s.x, w[block.x * 64, 0])
        {then}

    role keep(warps=4) consumes ring:
        for i in range(min(max(load(flags[0]), 0), 1)):
            with ring.consume() as s:
                store(y[block.x * 64, 0], s.x)
"""
ASKED = {
    "if": ("if load(flags[0]) > 0:", "pass"),
    "while": ("i = 0\n        while i < min(load(flags[0]), 1):", "    i += 1"),
    "for": ("for i in range(min(max(load(flags[0]), 0), 1)):", "pass"),
}


@pytest.mark.parametrize("asks", ASKED)
@pytest.mark.parametrize(("ready", "waits"), [("w", True), ("w, flags", False)])
def test_a_role_waits_for_what_it_only_asks_about(asks: str, ready: str, waits: bool) -> None:
    """The number in a condition may be written by a grid in front, as anything else that is loaded."""
    head, then = ASKED[asks]
    text = ASKS.format(ready=ready, asks=head, then=then)
    state = compile_source(Source("k.pipe", text), Options(allow_undecided=True))
    assert not state.failed, [one.title for one in state.diagnostics]
    assert derived(state, "follow") == {"load": (waits, True), "keep": (True, False)}
    assert (state.ptx or "").count(WAIT) == 1 + waits
