"""What a stage costs grows no faster than what it looks at: roles, stages, statements, branches, CTAs of a cluster. Calls are counted,
which are the same in every run, and nothing is timed. Doubled twice, the second step may cost little more than twice the first."""

import gc
from collections.abc import Callable
from cProfile import Profile
from functools import cache
from pathlib import Path

import pytest

from pipec.driver import STAGES, Compilation, Options
from pipec.source import Source

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNTED = ("parse", "analyse", "build", "check", "plan", "limits", "lower")
# Four times would be quadratic. A row that is doubled costs twice, and a little is left to what is asked of pairs of neighbours.
MOST_GROWTH = 2.5
LEAST = 600  # calls below which growth is that of what is made once, or of what a cluster of one CTA along x does without
STEP = 7  # a stage may grow by such a part of its calls at once (counted alike, Python 3.12 makes a tenth fewer than 3.11)


@pytest.fixture(scope="module", autouse=True)
def _searches_for_garbage_are_short() -> None:
    """They leave out what the tests before have left in memory, which took a third of a second each time."""
    gc.collect()
    gc.freeze()


def calls(source: Source, constants: dict[str, object]) -> dict[str, int]:
    """How many functions each stage calls."""
    state, found = Compilation(source, Options(constants=constants)), {}
    # The collector would come when it likes, and call what terms that nobody has any more leave to be called.
    gc.collect()
    gc.disable()
    try:
        for name, stage in STAGES.items():
            found[name] = calls_of(stage, state)
            assert not state.failed, [one.title for one in state.diagnostics]
            if name == COUNTED[-1]:
                break
    finally:
        gc.enable()
    return found


def calls_of(stage: Callable[[Compilation], None], state: Compilation) -> int:
    profile = Profile(subcalls=False, builtins=False)
    profile.enable()
    try:
        stage(state)
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


@cache
def example(name: str) -> Source:
    path = EXAMPLES / f"{name}.pipe"
    return Source(path.name, path.read_text(encoding="utf-8"))


def chained(roles: int, statements: int = 1) -> Source:
    """Tiles handed on by a row of roles, each of which does so several times in a turn."""
    lines = ["kernel chain(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):", "    grid(8)"]
    pipelines = range(roles - 1)
    lines += [f"    p{at} = InputTilePipeline(TilePayload(t=tile[f32, 8, 64]), stages=2)" for at in pipelines]
    for role in range(roles):
        takes, gives = role > 0, role < roles - 1
        flow = (f" consumes p{role - 1}" if takes else "") + (f" produces p{role}" if gives else "")
        lines += [f"    role r{role}(warps=1){flow}:", "        for i in range(block.x, ceildiv(M, 8), 8):"]
        for _ in range(statements):
            held = [f"p{role - 1}.consume() as s"] if takes else []
            held += [f"p{role}.produce() as o"] if gives else []
            lines.append(f"            with {', '.join(held)}:")
            move = (
                "write(o.t, s.t)" if takes and gives else "tma.load(o.t, x[i * 8, 0])" if gives else "tma.store(y[i * 8, 0], s.t)"
            )
            lines.append(f"                {move}")
    return Source("chain.pipe", "\n".join(lines) + "\n")


def branching(branches: int) -> Source:
    """A scalar that each branch may change, in a loop around a stage."""
    lines = ["kernel branching(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):", "    grid(8)"]
    lines += ["    p = InputTilePipeline(TilePayload(t=tile[f32, 8, 64]), stages=2)", "    role load(warps=1) produces p:"]
    lines += [
        "        with p.produce() as s:",
        "            tma.load(s.t, x[block.x * 8, 0])",
        "    role move(warps=1) consumes p:",
    ]
    lines += ["        row = block.x", "        with p.consume() as s:"]
    for number in range(branches):
        lines += [f"            if row == {3 * number}:", f"                row = row + {number}"]
    lines += ["            tma.store(y[block.x * 8, 0], s.t)"]
    return Source("branching.pipe", "\n".join(lines) + "\n")


def passing(pipelines: int) -> Source:
    """Two roles with many pipelines between them."""
    numbers = range(pipelines)
    between = ", ".join(f"p{at}" for at in numbers)
    lines = ["kernel passing(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):", "    grid(8)"]
    lines += [f"    p{at} = InputTilePipeline(TilePayload(t=tile[f32, 8, 64]), stages=1)" for at in numbers]
    lines += [f"    role load(warps=1) produces {between}:"]
    for at in numbers:
        lines += [f"        with p{at}.produce() as s{at}:", f"            tma.load(s{at}.t, x[block.x * 8, 0])"]
    lines += [f"    role move(warps=1) consumes {between}:"]
    for at in numbers:
        lines += [f"        with p{at}.consume() as s{at}:", f"            tma.store(y[block.x * 8, 0], s{at}.t)"]
    return Source("passing.pipe", "\n".join(lines) + "\n")


def stepping(pipelines: int) -> Source:
    """Two roles with many pipelines between them, and nothing in them: what begins with the role is used far behind it."""
    numbers = range(pipelines)
    between = ", ".join(f"p{at}" for at in numbers)
    lines = ["kernel stepping(n: i32):", "    grid(1)"]
    lines += [f"    p{at} = ProducerConsumerPipeline(stages=2)" for at in numbers]
    for role, word in (("fill", "produce"), ("use", "consume")):
        lines += [f"    role {role}(warps=1) {word}s {between}:"]
        lines += [f"        with p{at}.{word}() as s{at}:\n            pass" for at in numbers]
    return Source("stepping.pipe", "\n".join(lines) + "\n")


def vectors(count: int, around: Callable[[int], list[str]]) -> Source:
    """Parts of a vector copied one after the other, each below the lines that stand `around` it."""
    lines = ["kernel parts(x: tensor[f32, N], y: tensor[f32, N]):", "    grid(1)", "    role move(warps=4):"]
    for at in range(count):
        heads = around(at)
        lines += [f"{' ' * (8 + 4 * deep)}{head}" for deep, head in enumerate(heads)]
        lines.append(f"{' ' * (8 + 4 * len(heads))}store.direct(y[{128 * at}], per_column(x[{128 * at}], 128))")
    return Source("parts.pipe", "\n".join(lines) + "\n")


def parameters(count: int) -> Source:
    """A kernel with so many tensors and compile-time constants, each of which it uses."""
    constants = ", ".join(f"C{at}: int = {at + 1}" for at in range(count))
    tensors = ", ".join(f"x{at}: tensor[f32, N{at}]" for at in range(count))
    lines = [f"kernel many[{constants}]({tensors}, y: tensor[f32, N]):", "    grid(1)", "    role move(warps=4):"]
    lines += [f"        store.direct(y[{128 * at}], per_column(x{at}[C{at}], 128))" for at in range(count)]
    return Source("many.pipe", "\n".join(lines) + "\n")


def kernels(count: int) -> Source:
    one = "kernel k{0}(x: tensor[f32, N], y: tensor[f32, N]):\n    grid(1)\n    role move(warps=4):\n        {1}\n"
    return Source("kernels.pipe", "\n".join(one.format(at, "store.direct(y[0], per_column(x[0], 128))") for at in range(count)))


ROWS: dict[str, Callable[[int], tuple[Source, dict[str, object]]]] = {
    "roles": lambda size: (chained(1 + size), {}),
    "statements": lambda size: (chained(3, 2 * size), {}),
    # From where on terms are as deep as any is followed.
    "branches": lambda size: (branching(32 * size), {}),
    "pipelines": lambda size: (passing(8 * size), {}),
    "pipelines without tiles": lambda size: (stepping(32 * size), {}),
    # From where on blocks are tried rather than all pairs of stores compared.
    "stores": lambda size: (vectors(48 * size, lambda at: []), {}),
    "stores under conditions": lambda size: (vectors(36 * size, lambda at: [f"if N > {at}:"]), {}),
    "stores in loops": lambda size: (vectors(36 * size, lambda at: [f"for i{at} in range(N):"]), {}),
    "stores in counted loops": lambda size: (vectors(36 * size, lambda at: [f"for i{at} in range(3):"]), {}),
    "parameters": lambda size: (parameters(12 * size), {}),
    "kernels": lambda size: (kernels(8 * size), {}),
    "stages": lambda size: (example("copy_tma"), {"STAGES": 4 * size, "BN": 256}),
    "cluster along x": lambda size: (example("gemm_sm90_cluster"), {"CX": 2 * size, "CY": 1}),
    "cluster along y": lambda size: (example("gemm_sm90_cluster"), {"CX": 1, "CY": 2 * size}),
    "cluster along x, two along y": lambda size: (example("gemm_sm90_cluster"), {"CX": size, "CY": 2}),
    "cluster of rows": lambda size: (example("rms_norm_cluster"), {"CX": 2 * size}),
}


@pytest.mark.sample(0.4)
@pytest.mark.parametrize("row", ROWS)
def test_calls_grow_linearly(row: str) -> None:
    for size in (1, 2, 4):
        calls(*ROWS[row](size))  # what is loaded and remembered for the whole process
    small, middle, large = (calls(*ROWS[row](size)) for size in (1, 2, 4))
    for stage in COUNTED:
        first, second = middle[stage] - small[stage], large[stage] - middle[stage]
        told = f"{stage}: {small[stage]}, {middle[stage]}, {large[stage]} calls"
        # What the second doubling adds may come in one step, as that launches of more blocks are tried for a cluster of eight.
        step = small[stage] // STEP
        assert large[stage] <= 2.2 * middle[stage] and second <= MOST_GROWTH * max(first, LEAST, step), told


def test_a_second_axis_costs_less_than_as_many_clusters() -> None:
    """Eight CTAs in two rows of four against four in a row."""
    row, both = (calls(example("gemm_sm90_cluster"), {"CX": 4, "CY": rows}) for rows in (1, 2))
    assert all(both[stage] <= 2 * row[stage] for stage in COUNTED), (row, both)


def test_nested_loops_do_not_multiply() -> None:
    """Of the loops whose ends an access may have crossed, only the outermost counts. A level still asks something of each around it."""
    few, many = (vectors(1, lambda _, depth=depth: [f"for i{at} in range(N):" for at in range(depth)]) for depth in (7, 14))
    calls(few, {}), calls(many, {})
    small, large = calls(few, {}), calls(many, {})
    assert all(large[stage] <= 6 * small[stage] for stage in COUNTED), (small, large)
