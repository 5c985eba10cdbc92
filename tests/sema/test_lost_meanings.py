"""What a block assigns to a name of an enclosing block is kept, as in Python, or the program is refused: it is never lost."""

import numpy as np
import pytest

import pipec

HEAD = """
fn helper(x, n):
{helper}

kernel k(n: i32, a: tensor[f32, 8, 64], b: tensor[f32, 8, 64], y: tensor[f32, 8, 64]):
    grid(1)
    ring = InputTilePipeline(TilePayload(a=tile[f32, 8, 64], b=tile[f32, 8, 64]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.a, a[0, 0])
            tma.load(s.b, b[0, 0])
    role work(warps=1) consumes ring:
        with ring.consume() as s:
{body}
"""


def text(body: str, helper: str = "return x") -> str:
    inside = [f"            {line}" for line in body.split("\n")]
    return HEAD.format(helper="\n".join(f"    {line}" for line in helper.split("\n")), body="\n".join(inside))


LOST = {
    "a tile in a branch": "t = s.b\nif n > 2:\n    t = s.a\nstore(y[0, 0], t)",
    "a tile in the other branch": "t = s.b\nif n > 2:\n    pass\nelse:\n    t = s.a\nstore(y[0, 0], t)",
    "a tile in a loop, read behind it": "t = s.b\nfor i in range(n):\n    t = s.a\nstore(y[0, 0], t)",
    "a tile in a loop, read in the next turn": "t = s.b\nfor i in range(n):\n    store(y[0, 0], t)\n    t = s.a",
    "two blocks deep": "t = s.b\nfor i in range(n):\n    if i > 2:\n        t = s.a\nstore(y[0, 0], t)",
    "what a loop counts": "for i in range(n):\n    if i > 2:\n        i = 1\n    store(y[i, 0], s.a)",
    "counted again": "for i in range(n):\n    for i in range(3):\n        pass\n    store(y[i, 0], s.a)",
    "a number, counted": "i = 7\nfor i in range(n):\n    pass\nstore(y[i, 0], s.a)",
    "a number, counted in every turn": "i = 7\nfor j in range(n):\n    store(y[i, 0], s.a)\n    for i in range(2):\n        pass",
    "a constant": "comptime c = 1\nif n > 2:\n    comptime c = 2\nstore(y[c, 0], s.a)",
    "in a with": "t = s.b\nif n > 2:\n    with elect():\n        t = s.a\nstore(y[0, 0], t)",
}
LOST_IN_HELPERS = {
    "a number in a branch": "if n > 2:\n    x = 0.0\nreturn x",
    "a number in a loop": "for i in range(n):\n    x = x + 1.0\nreturn x",
    "a tile": "if n > 2:\n    x = x * 2.0\nreturn x",
}


@pytest.mark.parametrize("body", LOST.values(), ids=LOST)
def test_what_would_be_lost_is_refused(body: str) -> None:
    assert "E0297" in [one.code for one in pipec.check(text(body))]


@pytest.mark.parametrize("helper", LOST_IN_HELPERS.values(), ids=LOST_IN_HELPERS)
def test_parameters_of_helpers(helper: str) -> None:
    given = "s.a * 1.0" if helper == LOST_IN_HELPERS["a tile"] else "cast[f32](n)"
    assert "E0297" in [one.code for one in pipec.check(text(f"store(y[0, 0], s.a + s.b + helper({given}, n))", helper))]


# With what y holds, of a and b.
KEPT = {
    "a register tile takes another": ("t = registers(s.b)\nif n > 2:\n    t = s.a\nstore(y[0, 0], t)", lambda a, b: a),
    "in every turn": (
        "t = registers(s.b)\nfor i in range(n):\n    t = t + s.a\n    t = s.a\nstore(y[0, 0], t + s.b)",
        lambda a, b: a + b,
    ),
    "not read any more": (
        "t = s.b\nu = registers(t)\nif n > 2:\n    t = s.a\n    u = u + t\nstore(y[0, 0], u)",
        lambda a, b: a + b,
    ),
    "named anew": ("t = s.b\nif n > 2:\n    t = s.a\nt = s.a\nstore(y[0, 0], t + s.b)", lambda a, b: a + b),
    "read, then named anew in a branch": (
        "u = registers(s.b)\nt = s.b\nif n > 2:\n    u = u + t\n    t = s.a\n    u = u + t\nstore(y[0, 0], u)",
        lambda a, b: 2 * b + a,
    ),
    "counted anew": (
        "u = registers(s.b)\ni = 7\nfor i in range(1):\n    u = u + s.a\nfor i in range(2):\n    u = u + s.a\nstore(y[0, 0], u)",
        lambda a, b: b + 3 * a,
    ),
    "each branch its own": (
        "u = registers(s.b)\nt = s.b\nif n > 9:\n    t = s.a\n    u = u + t\nelse:\n    u = u + t\nstore(y[0, 0], u)",
        lambda a, b: b + b,
    ),
}


@pytest.mark.parametrize(("body", "wanted"), KEPT.values(), ids=KEPT)
def test_what_is_kept_is_what_python_says(body: str, wanted: object) -> None:
    a, b = np.full((8, 64), 3, np.float32), np.full((8, 64), 5, np.float32)
    y = np.zeros((8, 64), np.float32)
    pipec.compile(text(body), kernel="k")["k"](4, a, b, y, device="sim")
    assert callable(wanted) and np.array_equal(y, wanted(a, b))
