"""Three roles in loops of their own that use a tensor in global memory one behind the other: one fills it, one changes it, one reads it."""

import numpy as np
import pytest

import pipec
from pipec.driver import Options, compile_source
from pipec.runtime import LaunchOptions
from pipec.sim import Options as Simulation
from pipec.source import Source

KERNEL = """
kernel k(x: tensor[f32, 64, 32], t: tensor[f32, 64, 32], y: tensor[f32, 64, 32], n: i32):
    grid(1)
    p = ProducerConsumerPipeline(stages={stages})
    q = ProducerConsumerPipeline(stages={stages})
    r = ProducerConsumerPipeline(stages={stages})
    role a(warps=4) {a_sides}:
{a}
    role b(warps=4) {b_sides}:
{b}
    role c(warps=4) {c_sides}:
{c}
"""
FILL = "store.direct(t[{slot}, 0], load(x[i * 8, 0], 8, 32))"
CHANGE = "v = registers(load(t[{slot}, 0], 8, 32) * 2.0)\nstore.direct(t[{slot}, 0], v)"
READ = "store.direct(y[i * 8, 0], load(t[{slot}, 0], 8, 32))"
FOR = "for i in range(n):\n{body}"
WHILE = "i = 0\nwhile i < n:\n{body}\n    i += 1"
BY_FOURS = "for j in range(0, n * 4, 4):\n    i = j // 4\n{body}"
FROM_TWO = "for j in range(2, n + 2):\n    i = j - 2\n{body}"
ROWS = "for j in range(0, n * 8, 8):\n{body}"
SIDES = {"a": "produces p", "b": "consumes p produces q", "c": "consumes q"}
BACK = SIDES | {"a": "produces p consumes r", "c": "consumes q produces r"}
HELD = {"a": "produces p", "b": "consumes p produces q", "c": "consumes p, q"}
PUT, TAKE = "{}.producer_signal_and_step()", "{}.consumer_signal_and_step()"


def indented(text: str, columns: int) -> str:
    return "\n".join(" " * columns + line for line in text.split("\n"))


def within(head: str, *body: str) -> str:
    return f"{head}:\n" + indented("\n".join(body), 4)


def steps(*names: str) -> list[str]:
    """`p` signals a stage that the role fills, `-p` one that it takes."""
    return [TAKE.format(name[1:]) if name.startswith("-") else PUT.format(name) for name in names]


def source(
    bodies: dict[str, list[str]],
    slot: str = "i * 8",
    *,
    stages: int = 2,
    loops: tuple[str, str, str] = (FOR, FOR, FOR),
    sides: dict[str, str] = SIDES,
    slots: dict[str, str] | None = None,
    front: dict[str, str] | None = None,
) -> str:
    given = {"stages": stages}
    for role, loop in zip("abc", loops, strict=True):
        body = loop.format(body=indented("\n".join(bodies[role]), 4)).replace("{slot}", (slots or {}).get(role, slot))
        if front and role in front:
            body = f"{front[role]}\n{body}"
        given |= {role: indented(body, 8), f"{role}_sides": sides[role]}
    used = KERNEL.format(**given)
    return used if "r" in sides["a"].split() else used.replace(f"    r = ProducerConsumerPipeline(stages={stages})\n", "")


def codes(text: str) -> set[str]:
    return {one.code for one in compile_source(Source("k.pipe", text), Options("sm_90a")).diagnostics}


STEPS = {
    "a": [FILL, *steps("p")],
    "b": [*steps("-p"), CHANGE, *steps("q")],
    "c": [*steps("-q"), READ],
}
RELAY = STEPS | {"b": steps("-p", "q")}
WITHIN = {
    "a": [within("with p.produce()", FILL)],
    "b": [within("with p.consume()", within("with q.produce()", CHANGE))],
    "c": [within("with q.consume()", READ)],
}
RETURNED = {
    "a": [FILL, *steps("p", "-r")],
    "b": STEPS["b"],
    "c": [*steps("-q"), READ, *steps("r")],
}
KEPT = WITHIN | {"c": [within("with p.consume()", within("with q.consume()", READ))]}
AHEAD = STEPS | {"a": [*steps("p"), FILL]}
RIGHT = {
    "steps": source(STEPS),
    "the stages held": source(WITHIN),
    "a role that only relays": source(RELAY),
    "one slot that is given back": source(RETURNED, "0", stages=1, sides=BACK),
    "one slot, and stages to spare": source(RETURNED, "0", stages=3, sides=BACK),
    "as many slots as stages": source(KEPT, "i % 2 * 8", sides=HELD),
    "more slots than stages": source(KEPT, "(i + 1) % 3 * 8", sides=HELD),
    "a slot for each stage of three": source(KEPT, "i % 3 * 8", stages=3, sides=HELD),
    "loops in other words": source(STEPS, loops=(FROM_TWO, WHILE, BY_FOURS)),
    "rows instead of turns": source(STEPS, loops=(FOR, FOR, ROWS.replace("{body}", "    i = j // 8\n{body}"))),
}
WRONG = {
    "told before it is filled": source(AHEAD),
    "told before it is changed": source(STEPS | {"b": [*steps("-p", "q"), CHANGE]}),
    "read before it is awaited": source(STEPS | {"c": [READ, *steps("-q")]}),
    "changed before it is awaited": source(STEPS | {"b": [CHANGE, *steps("-p", "q")]}),
    "the next slot": source(STEPS, slots={"c": "i * 8 + 8"}),
    "half of the next slot": source(STEPS, slots={"c": "i * 8 + 4"}),
    "one slot that nobody gives back": source(STEPS, "0", stages=1),
    "given back by the wrong role": source(
        RETURNED | {"b": [*STEPS["b"], *steps("r")], "c": STEPS["c"]},
        "0",
        sides={"a": BACK["a"], "b": "consumes p produces q, r", "c": SIDES["c"]},
    ),
    "given back before it is read": source(RETURNED | {"c": [*steps("-q", "r"), READ]}, "0", sides=BACK),
    "awaited a turn too late": source(RETURNED | {"a": [FILL, *steps("p")]}, "0", sides=BACK, stages=1).replace(
        "            p.producer_signal_and_step()",
        "            p.producer_signal_and_step()\n            if i > 0:\n                r.consumer_signal_and_step()",
    ),
    "fewer slots than stages": source(KEPT, "i % 2 * 8", stages=3, sides=HELD),
    "a slot for two turns": source(KEPT, "i // 2 * 8", sides=HELD),
    "slots that do not come round with the stages": source(KEPT, "i % 4 // 2 * 8", sides=HELD),
    "released by the one that changes it": source(WITHIN, "i % 2 * 8"),
    "a loop that begins one later": source(STEPS, loops=(FOR, FOR, FOR.replace("range(n)", "range(1, n + 1)"))),
    "a loop that goes twice as far": source(STEPS, slots={"b": "i * 16"}),
    "a while that counts first": source(
        STEPS | {"b": ["i += 1", *STEPS["b"]]}, loops=(FOR, WHILE.replace("\n    i += 1", ""), FOR)
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_right(name: str) -> None:
    computes(RIGHT[name], 1.0 if "relays" in name else 2.0)


def computes(text: str, factor: float) -> None:
    assert codes(text) == set()
    kernel = pipec.compile(text, arch="sm_90a")["k"]
    for timing in ("late", "random", "order"):
        x, t, y = (np.random.default_rng(1).random((64, 32), np.float32) for _ in range(3))
        y[:] = 0
        kernel(x, t, y, 7, device="sim", options=LaunchOptions(Simulation(timing=timing)))
        assert np.array_equal(y[:56], x[:56] * factor), timing
        assert not y[56:].any()


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_refused(name: str) -> None:
    assert "E0614" in codes(WRONG[name])
