"""Two roles, in loops, that use slots of a tensor one behind the other: one fills a slot, the other reads it and gives it back.

What is given back is awaited with a lag, from a certain iteration on, and told as long as somebody waits for it; in some kernels by other
conditions, with the wrong lag, or in another order.
"""

import random

from fuzz.hand_over_kernels import COLUMNS, ROWS

_SLOTS = ("0", "i % 2 * 8", "i % 2 * 8", "i % 3 * 8", "i % 3 * 8", "(i + 1) % 2 * 8", "i // 2 % 2 * 8", "i % 4 * 8")
_AWAITED = ("i >= {}", "i > {} - 1", "{} <= i", "not i < {}")
_TOLD = ("i + {} < n", "i < n - {}", "i + {} <= n - 1")
_OTHER = ("", "i % 2 == 0", "i != 1", "i < 2", "i > 0", "load(bound[0]) > i")
ROLES = 2


def draw(chance: random.Random) -> str:
    lag = chance.choice((0, 1, 1, 2, 2, 3))
    tensors = [f"{name}: tensor[f32, 64, {COLUMNS}]" for name in "xy"]
    tensors += [f"seen{role}: tensor[f32, 1024, {COLUMNS}]" for role in range(ROLES)]
    lines = [f"kernel k({', '.join(tensors)}, bound: tensor[i32, 4], n: i32):", "    grid(1)"]
    lines += [f"    {name} = ProducerConsumerPipeline(stages={chance.choice((1, 2, 2, 3))})" for name in "pr"]
    slot = chance.choice(_SLOTS)
    fill = f"store.direct(y[{slot}, 0], fill(cast[f32](i + 1), f32, {ROWS}, {COLUMNS}))"
    read = f"store.direct(seen1[i * {ROWS}, 0], load(y[{slot}, 0], {ROWS}, {COLUMNS}))"
    awaited = _guarded(_condition(chance, _AWAITED, lag), "r.consumer_signal_and_step()")
    told = _guarded(_condition(chance, _TOLD, lag), "r.producer_signal_and_step()")
    first = _ordered(chance, [awaited, [fill], ["p.producer_signal_and_step()"]])
    second = _ordered(chance, [["p.consumer_signal_and_step()"], [read], told])
    early = ["r.consumer_signal_and_step()"] * (chance.random() < 0.1), ["r.producer_signal_and_step()"] * (chance.random() < 0.1)
    for name, sides, front, body in (
        ("a", "produces p consumes r", early[0], first),
        ("b", "consumes p produces r", early[1], second),
    ):
        lines.append(f"    role {name}(warps={chance.choice((1, 4))}) {sides}:")
        lines += [f"        {line}" for line in [*front, "for i in range(n):", *(f"    {line}" for line in body)]]
    return "\n".join(lines) + "\n"


def _condition(chance: random.Random, ways: tuple[str, ...], lag: int) -> str:
    if chance.random() < 0.15:
        return chance.choice(_OTHER)
    if not lag:
        return ""
    return chance.choice(ways).format(lag + chance.choice((0, 0, 0, 0, 0, -1, 1)))


def _guarded(condition: str, line: str) -> list[str]:
    return [f"if {condition}:", f"    {line}"] if condition else [line]


def _ordered(chance: random.Random, parts: list[list[str]]) -> list[str]:
    if chance.random() < 0.2:
        chance.shuffle(parts)
    return [line for part in parts for line in part]
