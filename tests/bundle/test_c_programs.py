"""What the C code computes of sizes is what Python computes: grids, conditions, and which form of a kernel is taken."""

import random
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest
from bundle.c_bundle import CBundle, FakeCuda, layouts, needs_compiler
from bundle.test_c_launch import BAD_ARGUMENT, SUCCESS, python
from fake_driver import FakeApi

from pipec.bundle.build import Built
from pipec.bundle.c_code import c_files
from pipec.bundle.choice import nearest
from pipec.bundle.manifest import Choice, Form, Kernel, Manifest, Variant
from pipec.interface import KernelInterface, ScalarArgument, ScalarParameter, TensorArgument
from pipec.tune.table import bucket
from pipec.verify.conditions import condition_data
from pipec.verify.terms import RANGES, Apply, Both, Choose, Compare, Either, Floor, Formula, Linear, Symbol, add, atom

pytestmark = needs_compiler

NAMES = ("M", "N", "steps")
KERNELS = 60
ELF = b"\x7fELFcode"


def expression(draw: random.Random, depth: int = 0) -> object:
    if depth > 2 or draw.random() < 0.3:
        return draw.choice([*NAMES, "gpu.multiprocessors", draw.randrange(1, 200)])
    operator = draw.choice(["+", "-", "*", "//", "%", "min", "max", "ceildiv"])
    operands = draw.choice([2, 2, 3]) if operator in ("min", "max") else 2
    return (operator, *(expression(draw, depth + 1) for _ in range(operands)))


def form(draw: random.Random, depth: int) -> Linear:
    made = Linear(draw.randrange(-300, 300))
    for _ in range(draw.choice([1, 1, 2])):
        made = add(made, part(draw, depth), draw.choice([-3, -1, 1, 2]))
    return made


def part(draw: random.Random, depth: int) -> Linear:
    symbol = Symbol(draw.choice([*NAMES, "grid.x", "grid.y"]))
    if depth > 1 or draw.random() < 0.4:
        return atom(symbol)
    match draw.choice(["floor", "choose", "product"]):
        case "floor":
            return atom(Floor(form(draw, depth + 1), draw.choice([2, 7, 64])))
        case "choose":
            return atom(Choose(condition(draw, depth + 1), form(draw, depth + 1), form(draw, depth + 1)))
        case _:
            kind = draw.choice([name for name in RANGES if name != "u64"])
            return atom(Apply(f"mul.lo.{kind}", (form(draw, depth + 1), form(draw, depth + 1))))


def condition(draw: random.Random, depth: int = 0) -> Formula:
    if depth < 2 and draw.random() < 0.3:
        kind = draw.choice([Both, Either])
        return kind(tuple(condition(draw, depth + 1) for _ in range(draw.choice([1, 2, 3]))))
    return Compare(draw.choice(["ge", "ge", "eq", "ne"]), form(draw, depth))


def interface(draw: random.Random, number: int) -> KernelInterface:
    conditions = tuple(condition_data(condition(draw)) for _ in range(draw.choice([0, 1, 2])))
    return KernelInterface(
        name=f"kernel{number}",
        arguments=(TensorArgument("x", "f32", ("M", "N"), False, False, True), ScalarArgument("steps", "i32")),
        parameters=(ScalarParameter("steps", "steps", "i32"),),
        grid=(expression(draw), draw.choice([1, expression(draw)]), 1),
        cluster=(1, 1, 1),
        threads=64,
        shared_bytes=0,
        tensor_columns=0,
        roles=(),
        barriers=(),
        source="made.pipe",
        conditions=conditions,
    )


def bundle(kernels: list[Kernel], folder: Path, cuda: FakeCuda) -> CBundle:
    manifest = Manifest("made", "0", "made.pipe", (), tuple(kernels), {})
    with patch(
        "pipec.bundle.c_tables.Tables._code", lambda self, name: self._define("PIPEC_CODE", "code", [str(b) for b in ELF])
    ):
        files = {name: text.encode() for name, text in c_files(manifest, {}).items()}
    return CBundle(Built(manifest, files), folder, cuda)


def test_grids_and_conditions(tmp_path: Path, cuda: FakeCuda, api: FakeApi) -> None:
    draw = random.Random(7)
    made = [interface(draw, number) for number in range(KERNELS)]
    variants = [Variant((), one, "", "") for one in made]
    opened = bundle([Kernel(one.interface.name, (Form("sm_90a", (one,), ()),)) for one in variants], tmp_path, cuda)
    cuda.reset(multiprocessors=148)
    assert opened.open() == SUCCESS
    answers = set()
    for one in made:
        for _ in range(25):
            sizes = {name: draw.choice([1, 2, 3, 64, 127, 128, 1000, 65_536, 2**20]) for name in ("M", "N")}
            steps = draw.choice([-(2**31), -5, 0, 1, 7, 2**31 - 1])
            passed = [*layouts(one, sizes), steps]
            api.launches.clear()
            expected = python(one, "sm_90a", passed, api)
            cuda.reset(multiprocessors=148)
            status = opened.launch(one, passed)
            if "beyond 64 bits" in opened.message:  # Python has the number, and refuses it as well
                assert "outside 0 to" in expected
                continue
            assert (status, opened.message) == ((BAD_ARGUMENT, expected) if expected else (SUCCESS, "")), (one.grid, sizes, steps)
            grids = [f"{c.gridDimX},{c.gridDimY},{c.gridDimZ}" for c, _ in api.launches]
            assert [call["grid"] for call in cuda.calls("cuLaunchKernelEx")] == grids
            answers.add("launched" if grids else expected.partition("`: ")[2].partition(" (")[0].rstrip("-0123456789"))
    opened.close()
    assert "launched" in answers and any("divides by zero" in one for one in answers)
    assert any("the kernel needs" in one for one in answers) and any("outside 0 to" in one for one in answers)


def test_the_form_that_is_nearest(tmp_path: Path, cuda: FakeCuda) -> None:
    """Each form has a number of threads of its own, which the launch tells."""
    draw = random.Random(11)
    plain = interface(random.Random(1), 0)
    rows = tuple(
        Choice((draw.choice([1, 16, 100, 128, 2048, 2049]), draw.choice([1, 17, 512, 4096])), draw.randrange(4), "model")
        for _ in range(20)
    )
    fields = {name: getattr(plain, name) for name in plain.__match_args__}
    forms = [
        KernelInterface(**fields | {"threads": 32 * (1 + number), "grid": (1, 1, 1), "conditions": ()}) for number in range(4)
    ]
    kernel = Kernel("kernel0", (Form("sm_90a", tuple(Variant((), one, "", "") for one in forms), rows),))
    opened = bundle([kernel], tmp_path, cuda)
    cuda.reset()
    assert opened.open() == SUCCESS
    taken = set()
    for _ in range(600):
        m, n = (draw.choice([draw.randrange(1, 40), draw.randrange(1, 5000), 2 ** draw.randrange(20)]) for _ in range(2))
        cuda.reset()
        assert opened.launch(forms[0], [*layouts(forms[0], {"M": m, "N": n}), 1]) == SUCCESS, opened.message
        (call,) = cuda.calls("cuLaunchKernelEx")
        number = nearest(rows, (m, n))
        assert call["block"] == f"{32 * (1 + number)},1,1", (m, n)
        taken.add(number)
    opened.close()
    assert taken == {0, 1, 2, 3}


def test_buckets_are_those_of_tables() -> None:
    from pipec.bundle.choice import _bucket

    sizes = [*range(1, 3000), 4096, 4097, 5120, 5121, 2**31 - 1]
    for one, other in pairwise(sizes):
        assert (_bucket(one) == _bucket(other)) == (bucket(one) == bucket(other)), (one, other)
        assert _bucket(one) <= _bucket(other)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_exact_sizes_are_nearest(size: int) -> None:
    rows = (Choice((20,), 0, "model"), Choice((17 + size,), 1, "table"))
    assert nearest(rows, (17 + size,)) == 1
    assert nearest((), (5,)) == 0
