"""`assume`: what the proof may use, what every launch keeps to on any device, and what `pipec verify` says of it."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

import pipec
from pipec.commands.cli import main
from pipec.driver import Options, compile_source
from pipec.interface import from_json, to_json
from pipec.runtime import ArgumentError
from pipec.runtime.arguments.binding import Bound
from pipec.runtime.arguments.parameters import grid_of
from pipec.runtime.launcher import Launcher
from pipec.sema import tree
from pipec.source import Source
from pipec.verify.condition_text import condition_words
from pipec.verify.conditions import met
from pipec.verify.data import formula_data, formula_of
from pipec.verify.reader.read import read
from pipec.verify.terms import Compare, Formula, Linear, Symbol, add, atom, choose, floor, scale
from tests.verify.interpret import holds

Capture = pytest.CaptureFixture[str]

# The consumer takes the first tile apart from the others: right only where there is one.
PEELED = """
kernel peeled[BK: int = 64](a: tensor[f32, M, K], d: tensor[f32, M, K], n: i32):
    grid(ceildiv(M, 64))
{}
    ring = InputTilePipeline(TilePayload(x=tile[f32, 64, BK]), stages=2)

    role load(warps=1) produces ring:
        for k in range(ceildiv(K, BK)):
            with ring.produce() as s:
                tma.load(s.x, a[block.x * 64, k * BK])

    role copy(warps=4) consumes ring:
        with ring.consume() as s:
            store(d[block.x * 64, 0], s.x)
        for k in range(1, ceildiv(K, BK)):
            with ring.consume() as s:
                store(d[block.x * 64, k * BK], s.x)
"""
RIGHT = PEELED.format("    assume(K > 0)\n    assume(n * 2 < 100 or n == 1000)")


def arrays(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    return np.ones((rows, columns), np.float32), np.zeros((rows, columns), np.float32)


def test_the_proof_rests_on_it() -> None:
    wrong = compile_source(Source("p.pipe", PEELED.format("    assume(n > 0)")), Options())
    assert [one.code for one in wrong.diagnostics] == ["E0601"] and "K = 0" in wrong.diagnostics[0].title
    right = compile_source(Source("p.pipe", RIGHT), Options())
    assert right.protocol["peeled"].outcome == "proved"
    assert "for all sizes with K >= 1 and (n <= 49 or n == 1000);" in right.protocol["peeled"].sentence


def test_a_launch_that_does_not_keep_to_it_is_refused() -> None:
    kernel = pipec.compile(RIGHT)["peeled"]
    a, d = arrays(64, 128)
    kernel(a, d, 3, device="sim")
    assert (d == 1).all()
    kernel(a, d, 1000, device="sim")
    for given, values in (((*arrays(64, 0), 3), "K >= 1 (K = 0)"), ((a, d, 50), "n <= 49 or n == 1000 (n = 50)")):
        with pytest.raises(ArgumentError) as error:
            kernel(*given, device="sim")
        assert values in str(error.value) and "kernel `peeled`" in str(error.value)


def test_scalars_of_conditions_belong_to_a_prepared_launch() -> None:
    """A launch on a GPU is prepared once for each set of sizes: another scalar may not slip through."""
    interface = pipec.compile(RIGHT)["peeled"].interface
    assert Launcher(interface, "")._shaping == (0,)
    other = pipec.compile(PEELED.format("    assume(K > 0)"))["peeled"].interface
    assert Launcher(other, "")._shaping == ()


def test_the_command_line_reports_it(tmp_path: Path, capsys: Capture) -> None:
    source, ptx, certificate = tmp_path / "p.pipe", tmp_path / "p.ptx", tmp_path / "p.json"
    source.write_text(RIGHT, encoding="utf-8")
    sizes = ["--shape", "M=64", "K=0", "n=0"]
    assert main(["run", str(source), "--device", "sim", *sizes]) == 1
    assert "error[E1008]" in capsys.readouterr().err
    assert main(["compile", str(source), "-o", str(ptx), "--certificate", str(certificate)]) == 0
    assert main(["sim", str(ptx), *sizes]) == 1
    assert "error[E1008]" in capsys.readouterr().err
    assert main(["verify", str(ptx), str(certificate)]) == 0
    assert capsys.readouterr().out == "peeled: no role waits for ever, for all sizes with K >= 1 and (n <= 49 or n == 1000)\n"


def test_a_certificate_does_not_hold_without_the_condition(tmp_path: Path) -> None:
    """The condition is part of the PTX: without it there, the same certificate proves nothing."""
    from pipec.verify.checker.check import check
    from pipec.verify.checker.configuration import Refused

    state = compile_source(Source("p.pipe", RIGHT), Options())
    assert state.ptx is not None
    certificate = state.certificates["peeled"].certificate
    check(read(state.ptx), certificate)
    begin = state.ptx.index(', "conditions": ')
    with pytest.raises(Refused):
        check(read(state.ptx[:begin] + "}" + state.ptx[state.ptx.index("\n", begin) :]), certificate)


def test_what_a_proof_needs_beyond_is_checked_at_the_launch(tmp_path: Path, capsys: Capture) -> None:
    """The number of tiles is a product of sizes: nobody stated that it stays within 32 bits, so the launch has to see to it."""
    source = Path(__file__).parents[2] / "examples" / "copy_tma.pipe"
    ptx, certificate = tmp_path / "c.ptx", tmp_path / "c.json"
    assert main(["compile", str(source), "-D", "BM=4", "-o", str(ptx), "--certificate", str(certificate)]) == 0
    assert main(["verify", str(ptx), str(certificate)]) == 0
    assert "for all sizes with ceildiv(M, 4) * ceildiv(N, 1024) <= 2146435072" in capsys.readouterr().out
    (line,) = [line for line in ptx.read_text(encoding="utf-8").splitlines() if line.startswith("// pipec.kernel ")]
    interface = from_json(line.removeprefix("// pipec.kernel "))
    integers = {"M": 1 << 20, "N": 1 << 20}
    assert grid_of(interface, Bound({}, {}, integers, integers, "cpu"), 132)
    with pytest.raises(ArgumentError, match=r"needs ceildiv\(M, 4\) .* \(M = 2147483647, N = 1048576\)"):
        grid_of(interface, Bound({}, {}, {**integers, "M": (1 << 31) - 1}, {}, "cpu"), 132)


# Both roles do it once for all n but those for which 4 * n + 1 wraps.
SCALED = """
kernel scaled(x: tensor[i32, N], n: {}):
    grid(1)
    p = ProducerConsumerPipeline(stages=2)

    role a(warps=1) produces p:
        if n * 4 + 1 > 9:
            p.producer_signal_and_step()

    role b(warps=1) consumes p:
        if n > 2:
            p.consumer_signal_and_step()
"""


@pytest.mark.parametrize(
    ("dtype", "words", "least", "most"),
    [
        ("u32", "n <= 1073741823", 0, (1 << 30) - 1),
        ("i32", "n >= -536870912 and n <= 536870911", -(1 << 29), (1 << 29) - 1),
    ],
)
def test_conditions_are_about_scalars_too(dtype: str, words: str, least: int, most: int) -> None:
    """Whatever their sign is to the PTX: the report names them, and a launch is held to what it says."""
    program = pipec.compile(SCALED.format(dtype))
    assert f"for all sizes with {words};" in " ".join(program.report["scaled"].proofs)
    x = np.ones(64, np.int32)
    for right in (least, 3, most):
        program["scaled"](x, right, device="sim")
    for wrong in {least - 1, most + 1} - {-1}:
        with pytest.raises(ArgumentError, match=rf"\(n = {wrong}\)"):
            program["scaled"](x, wrong, device="sim")


def test_interfaces_keep_conditions() -> None:
    interface = pipec.compile(RIGHT)["peeled"].interface
    assert len(interface.conditions) == 2 and from_json(to_json(interface)) == interface


def test_compile_time_conditions_that_hold_say_nothing() -> None:
    program = pipec.compile(PEELED.format("    assume(BK <= 64)\n    assume(K > 0)"))
    assert "for all sizes with K >= 1;" in " ".join(program.report["peeled"].proofs)


# ------------------------------------------------------------------------------------------------------------- arithmetic

CONDITIONS = {
    "K % 8 == 3": lambda M, K, n: K % 8 == 3,
    "n % 7 == 3": lambda M, K, n: n % 7 == 3,
    "n // 7 >= -3": lambda M, K, n: n // 7 >= -3,
    "ceildiv(K, 64) != ceildiv(M, 48)": lambda M, K, n: -(-K // 64) != -(-M // 48),
    "min(K, M) < 9": lambda M, K, n: min(K, M) < 9,
    "max(n, M - 20) <= K": lambda M, K, n: max(n, M - 20) <= K,
    "not (K < M or n > 5)": lambda M, K, n: not (K < M or n > 5),
    "K * M <= 50 * n + 3": lambda M, K, n: K * M <= 50 * n + 3,
    "n * n >= M and -n < K": lambda M, K, n: n * n >= M and -n < K,
}


def formula(condition: str) -> Formula:
    state = compile_source(Source("p.pipe", PEELED.format(f"    assume({condition})")), Options(), "analyse")
    assert state.trees is not None and not state.failed
    (found,) = state.trees[0].assumptions
    assert isinstance(found, tree.Assumption)
    return found.formula


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_mean_what_python_says(condition: str) -> None:
    found, chosen = formula(condition), random.Random(condition)
    assert formula_of(json.loads(json.dumps(formula_data(found)))) == found
    answers = set()
    for _ in range(300):
        numbers = {"M": chosen.randrange(80), "K": chosen.randrange(80), "n": chosen.randrange(-40, 40)}
        expected = bool(CONDITIONS[condition](**numbers))
        answers.add(expected)
        assert met(found, numbers) == holds(found, numbers) == expected, numbers
    assert answers == {True, False}


def test_a_product_beyond_32_bits_is_not_met() -> None:
    """The kernel would compute another number, of which the condition says nothing."""
    found = formula("K * M >= 0 or n == 3")
    assert met(found, {"K": 1 << 15, "M": 1 << 15, "n": 0})
    assert not met(found, {"K": 1 << 16, "M": 1 << 16, "n": 0})
    assert met(found, {"K": 1 << 16, "M": 1 << 16, "n": 3})


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("K > 0", "K >= 1"),
        ("K % 8 == 3", "K % 8 == 3"),
        ("ceildiv(K, 64) >= 2", "ceildiv(K, 64) >= 2"),
        ("K // 64 < n", "n >= K // 64 + 1"),
        ("K * M < 1000", "K * M <= 999"),
        ("K == M", "K == M"),
        ("2 * (n // 2) - 2 * n >= -7", "n // 2 + 3 >= n"),
        ("2 * (n // 2) + 7 >= 2 * n + K", "n % 2 + K + n <= 7"),
        ("3 * n >= 4 and 4 * n != 8 and 4 * n != 9", "n >= 2 and n != 2 and 4 * n != 9"),
        ("not (K == M and n < 3)", "K != M or n >= 3"),
        ("ceildiv(K, 64) <= 33554431", "K <= 2147483584"),
        ("3 * (K // 64) <= 300000", "K <= 6400063"),
        ("n // 64 >= -100000", "n >= -6400000"),
        ("ceildiv(ceildiv(K, 2), 64) <= 100000", "K <= 12800000"),
        ("K * M // 3 <= 715827881", "K * M <= 2147483645"),
        ("K + 2147483520 >= M + 64 * n", "M + 64 * n - K <= 2147483520"),
        ("max(n, 0) + 2 * K <= 2147483647", "max(n, 0) + 2 * K <= 2147483647"),
        ("min(n, K) >= 3 * M", "min(K, n) >= 3 * M"),
    ],
)
def test_words(condition: str, words: str) -> None:
    assert condition_words(formula(condition)) in (words, words.replace("K == M", "M == K"))


@pytest.mark.parametrize(("most", "words"), [(16777215, "K <= 2147483520"), (300, "ceildiv(K, 128) <= 300")])
def test_one_more_where_something_is_left_is_rounding_up(most: int, words: str) -> None:
    """As `values/quotients.py` says it: K // 128, and one for what is left."""
    size, quotient = atom(Symbol("K")), floor(atom(Symbol("K")), 128)
    left = Compare("ge", add(add(size, quotient, -128), Linear(-1)))
    count = add(quotient, choose(left, Linear(1), Linear(0)))
    assert condition_words(Compare("ge", add(Linear(most), count, -1))) == words


def _form(chosen: random.Random, depth: int) -> Linear:
    form = Linear(chosen.choice((0, 0, 0, -100_000, 123_456)) + chosen.randrange(-9, 10))
    for _ in range(chosen.randrange(1, 4)):
        form = add(form, _value(chosen, depth), chosen.choice((-4, -3, -2, -1, 1, 1, 2, 4)))
    return form


def _value(chosen: random.Random, depth: int) -> Linear:
    match chosen.randrange(6) if depth else 0:
        case 0:
            return atom(Symbol(chosen.choice("MKn")))
        case 1:
            return floor(_form(chosen, depth - 1), chosen.choice((2, 3, 8)))
        case 2:
            condition = Compare(chosen.choice(("ge", "eq", "ne")), _form(chosen, depth - 1))
            return choose(condition, _form(chosen, depth - 1), _form(chosen, depth - 1))
        case 3:
            left, right = _form(chosen, depth - 1), _form(chosen, depth - 1)
            return choose(Compare("ge", add(left, right, -1)), *chosen.sample((left, right), 2))
        case 4:
            form, by = _form(chosen, depth - 1), chosen.choice((2, 128))
            more = Compare("ge", add(add(form, floor(form, by), -by), Linear(-1)))
            return add(floor(form, by), choose(more, Linear(1), Linear(0)))
        case _:
            name, by = atom(Symbol(chosen.choice("MKn"))), chosen.choice((2, 3))
            return scale(add(name, floor(name, by), -by), chosen.choice((-1, 1, 2)))


@pytest.mark.parametrize("seed", range(20))
def test_words_mean_what_python_says(seed: int) -> None:
    """The words are read as Python reads them."""
    chosen = random.Random(seed)
    for _ in range(25):
        found = Compare(chosen.choice(("ge", "eq", "ne")), _form(chosen, 2))
        words = condition_words(found)
        for _ in range(20):
            most = chosen.choice((30, 300_000))
            numbers = {"M": chosen.randrange(most), "K": chosen.randrange(most), "n": chosen.randrange(-most, most)}
            said = eval(words, {"ceildiv": lambda left, right: -(-left // right), **numbers})
            assert said == holds(found, numbers), (words, numbers)


@pytest.mark.parametrize(("value", "kind"), [(-5, "i32"), (7, "i32"), (7, "u32"), (3_000_000_000, "u32")])
def test_scalars_are_read_as_the_source_means_them(value: int, kind: str) -> None:
    """A parameter of PTX has bits, and its symbol stands for the number that the source means: the facts must be true of it."""
    source = PEELED.format("    assume(K > 0)\n    assume(n < 0 or n > 5)").replace("n: i32", f"n: {kind}")
    source = source.replace("s.x)\n", "s.x + cast[f32](n))\n")
    state = compile_source(Source("p.pipe", source), Options(), "emit")
    assert state.ptx is not None
    facts = [fact for fact in read(state.ptx).facts if "peeled_scalar_n" in str(fact)]
    assert facts and all(holds(fact, {"peeled_scalar_n": value}) for fact in facts)


_TURNS = """
kernel total[S: int = 3](x: tensor[f32, M, 64], y: tensor[f32, M, 64], c: tensor[i32, {size}]):
    grid(ceildiv(M, 64), S)
    role add(warps=4):
        total = registers(fill(0.0, f32, 64, 64))
        for i in range(2):
            total = total + 0.5 * load(x[block.x * 64, 0], 64, 64)
        with semaphore(c[{place}], block.y, S):
            store(y[block.x * 64, 0], total, reduce="add")
"""


@pytest.mark.parametrize(("size", "place", "blocks", "fits"), [
    ("2", "block.x", 2, True), ("2", "block.x", 3, False), ("C", "block.x", 4, True), ("C", "block.x", 5, False),
    ("C", "block.x + 1", 3, True), ("C", "block.x + 1", 4, False), ("C", "C - 1 - block.x", 4, True), ("C", "C - 1 - block.x", 5, False),
])  # fmt: skip
def test_a_launch_whose_counters_lie_outside_their_tensor_is_refused(size: str, place: str, blocks: int, fits: bool) -> None:
    kernel = pipec.compile(_TURNS.format(size=size, place=place))["total"]
    x, y = np.ones((64 * blocks, 64), np.float32), np.zeros((64 * blocks, 64), np.float32)
    counters = np.zeros(2 if size == "2" else 4, np.int32)
    if not fits:
        with pytest.raises(ArgumentError, match="the kernel needs"):
            kernel(x, y, counters, device="sim")
        return
    kernel(x, y, counters, device="sim")
    assert (y == 3).all() and not counters.any()
