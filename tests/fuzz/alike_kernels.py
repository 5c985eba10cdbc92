"""Two roles with the same loops, whose bounds are wild: products with a block's place, quotients, remainders, the smaller of two numbers.

Whatever the bounds are, both roles go round equally often, so every one in which no counter wraps is right.
"""

import random
from collections.abc import Sequence

from tests.protocol.drawing import Lines, indented

SIZES = ("n", "m", "rows")
FACTORS = (2, 3, 4, 16, 64)
MADE = (
    "{a} * {c}", "({a}) // {c}", "ceildiv({a}, {c})", "({a}) % {c}", "min({a}, {b})", "max({a}, {b})", "({a} + {b})", "({a} - {b})",
    "({a}) * ({b})", "ceildiv({a}, grid.x)",
)  # fmt: skip
HEADS = (
    "range({bound})",
    "range(block.x, {bound}, grid.x)",
    "range({first}, {bound}, {step})",
    "range({place}, {size} * {factor}, grid.x)",
    "range({bound} - 1, -1, -1)",
)


def alike(chance: random.Random) -> str:
    """The source of a kernel."""
    body = _loops(chance, chance.choice((1, 1, 2, 2, 3)), ())
    if chance.random() < 0.3:
        body += _loops(chance, 1, ())
    lines = [f"grid({chance.choice(('4', '8', 'n', 'ceildiv(m, 64)'))})"]
    lines += ["assume(n >= 1 and m >= 1)"] if chance.random() < 0.5 else []
    lines.append(f"p = ProducerConsumerPipeline(stages={chance.randint(1, 4)})")
    for role, does, side in (("a", "produces", "producer"), ("b", "consumes", "consumer")):
        stage = f"p.{side}_signal_and_step()"
        lines += [f"role {role}(warps=1) {does} p:", *indented([line.replace("{p}", stage) for line in body])]
    return "\n".join(["kernel k(n: i32, m: i32, rows: i32, z: tensor[f32, M, N]):", *indented(lines)]) + "\n"


def _number(chance: random.Random, around: Sequence[str], depth: int = 0) -> str:
    if depth == 2 or chance.random() < 0.3:
        return chance.choice((*SIZES, *SIZES, "block.x", "grid.x", *around))
    a, b = (_number(chance, around, depth + 1) for _ in range(2))
    return chance.choice(MADE).format(a=a, b=b, c=chance.choice(FACTORS))


def _loops(chance: random.Random, depth: int, around: tuple[str, ...]) -> Lines:
    variable = "ijk"[len(around)]
    head = chance.choice(HEADS).format(
        bound=_number(chance, around),
        first=chance.choice((*SIZES, "block.x", "1", "2", *around)),
        step=chance.choice((1, 2, 4)),
        place=chance.choice(("block.x", "block.x * 2")),
        size=chance.choice((*SIZES, *around)),
        factor=chance.choice(("block.x", "block.x", "2", "grid.x", *SIZES)),
    )
    inner = _loops(chance, depth - 1, (*around, variable)) if depth > 1 else []
    if depth == 1 or chance.random() < 0.3:
        inner.append("{p}")
    return [f"for {variable} in {head}:", *indented(inner)]
