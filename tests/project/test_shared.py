"""What one worker runs together: tests about one program, or of one file; what takes long goes first."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from examples.catalogue import EXAMPLES, Case
from shared import group_of, grouped, shuffled


class Item(SimpleNamespace):
    """As much of a test as is asked for."""

    def get_closest_marker(self, _: str) -> pytest.Mark | None:
        return next(iter(self.marks), None)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark.mark)


def item(place: str, name: str, /, **parameters: object) -> Item:
    made = Item(nodeid=f"{place}::{name}", path=Path(place), marks=[])
    if parameters:
        made.callspec, made.nodeid = SimpleNamespace(params=parameters), f"{made.nodeid}[of some]"
    return made


GEMM = EXAMPLES / "gemm.pipe"


@pytest.mark.parametrize(
    ("one", "group"),
    [
        (item("tests/checks/test_checks.py", "test_right", path=GEMM), "examples/gemm"),
        (item("tests/examples/test_examples.py", "test_equals", timing="late", case=Case(GEMM, ())), "examples/gemm"),
        (item("tests/examples/test_examples.py", "test_run", run=SimpleNamespace(case=Case(GEMM, ()))), "examples/gemm"),
        (item("tests/sim/test_alu.py", "test_a", number=1), "tests/sim/test_alu.py"),
        (item("tests/project/test_imports.py", "test_b", file=Path("pipec/source.py")), "tests/project/test_imports.py"),
        (item("tests/sim/test_grid.py", "test_c"), "tests/sim/test_grid.py"),
        (item("tests/fuzz/test_fuzz.py", "test_d"), None),
    ],
)
def test_groups(one: Item, group: str | None) -> None:
    assert group_of(one) == group


def test_what_is_long_comes_first_and_keeps_its_own_group() -> None:
    short, own = item("tests/sim/test_grid.py", "test_c"), item("tests/verify/test_logic.py", "test_e")
    own.marks.append(pytest.mark.xdist_group("own").mark)
    long = item("tests/fuzz/test_protocol_kernels.py", "test_f", chunk=1)
    items = [short, own, long]
    grouped(items)
    assert items == [long, own, short]
    assert [[mark.args[0] for mark in one.marks] for one in items] == [[], ["own"], ["tests/sim/test_grid.py"]]


def test_the_groups_reach_the_scheduler_of_pytest_xdist(request: pytest.FixtureRequest) -> None:
    """It reads a test's group behind the `@` of its name, which pytest-xdist writes after this project's hook has marked the test."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("groups are for --dist loadgroup")
    for item in request.session.items:
        names = sorted({mark.args[0] for mark in item.iter_markers("xdist_group")})
        assert item.nodeid.endswith(f"@{'_'.join(names)}") if names else group_of(item) is None, item.nodeid


def test_another_seed_is_another_order_of_the_same_tests() -> None:
    tests = [item("tests/sim/test_grid.py", f"test_{number}") for number in range(20)]
    orders = []
    for seed in ("1", "1", "2"):
        items = list(tests)
        shuffled(items, seed)
        orders.append([one.nodeid for one in items])
    assert orders[0] == orders[1] != orders[2] and len({frozenset(order) for order in orders}) == 1
