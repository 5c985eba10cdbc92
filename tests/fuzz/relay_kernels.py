"""Random chains of three roles, in loops, that access a tensor in turn: one fills a slot, the next changes it, the last reads it.

Slots are fewer or more than the stages that bring them back, stages are held around accesses or handed on at once, a stage or two may be
handed over in front of the loop, and each role counts its iterations in words of its own. Most of it is wrong.
"""

import random

from fuzz.hand_over_kernels import COLUMNS, ROWS

_SLOTS = ("0", "i * 8", "i * 8", "i % 2 * 8", "i % 2 * 8", "i % 3 * 8", "i * 8 + 8", "(i + 1) % 2 * 8", "i // 2 * 8")
_LOOPS = ("for i in range(n)", "for i in range(n)", "for j in range(2, n + 2)", "for j in range(0, n * 4, 4)", "while")
_NUMBER = {"for j in range(2, n + 2)": "i = j - 2", "for j in range(0, n * 4, 4)": "i = j // 4"}
NAMES = "abc"


def draw(chance: random.Random) -> str:
    slot = chance.choice(_SLOTS)
    rings = [
        ("p", "a", "b"),
        ("q", "b", "c"),
        *chance.choice(((), (), (("r", "c", "a"),), (("r", "a", "c"),), (("r", "b", "a"),))),
    ]
    stages = {name: chance.choice((1, 1, 2, 2, 3)) for name, _, _ in rings}
    early = {name: chance.choice((0, 0, 0, 0, 1)) for name, _, _ in rings}
    tensors = [f"{name}: tensor[f32, 64, {COLUMNS}]" for name in "xy"]
    tensors += [f"seen{role}: tensor[f32, 1024, {COLUMNS}]" for role in range(3)]
    lines = [f"kernel k({', '.join(tensors)}, bound: tensor[i32, 4], n: i32):", "    grid(1)"]
    lines += [f"    {name} = ProducerConsumerPipeline(stages={stages[name]})" for name, _, _ in rings]
    for number, role in enumerate(NAMES):
        lines += _in(_role(chance, number, role, rings, early, slot))
    return "\n".join(lines) + "\n"


def _role(
    chance: random.Random, number: int, role: str, rings: list[tuple[str, str, str]], early: dict[str, int], slot: str
) -> list[str]:
    fills = [name for name, producer, _ in rings if producer == role]
    takes = [name for name, _, consumer in rings if consumer == role]
    sides = (f" produces {', '.join(fills)}" if fills else "") + (f" consumes {', '.join(takes)}" if takes else "")
    if chance.random() < 0.2:
        slot = chance.choice(_SLOTS)
    mine = [(name, "consume") for name in takes] + [(name, "produce") for name in fills]
    if chance.random() < 0.2:
        chance.shuffle(mine)
    front = [_at_once(one) for one in mine for _ in range(early[one[0]])]
    body = _body(chance, number, slot, mine)
    loop = chance.choice(_LOOPS)
    if loop == "while":
        walk = ["i = 0", "while i < n:", *_in([*body, "i += 1"])]
    else:
        walk = [f"{loop}:", *_in([*([_NUMBER[loop]] if loop in _NUMBER else []), *body])]
    return [f"role {role}(warps={chance.choice((1, 4))}){sides}:", *_in([*front, *walk])]


def _body(chance: random.Random, number: int, slot: str, mine: list[tuple[str, str]]) -> list[str]:
    """The hand-overs one behind the other or within each other, with the role's access at one of the places in between."""
    access = _access(chance, number, slot)
    where = sum(way == "consume" for _, way in mine) if chance.random() < 0.7 else chance.randint(0, len(mine))
    lines: list[str] = access if where >= len(mine) else []
    for place in reversed(range(len(mine))):
        name, way = mine[place]
        behind = [] if place != where else access
        if chance.random() < 0.4:
            lines = [f"with {name}.{way}():", *_in([*behind, *lines] or ["pass"])]
        elif chance.random() < 0.2:
            lines = [f"with {name}.{way}():", *_in(behind or ["pass"]), *lines]
        else:
            lines = [*behind, _at_once(mine[place]), *lines]
    return lines


def _at_once(one: tuple[str, str]) -> str:
    name, way = one
    return f"{name}.{'consumer' if way == 'consume' else 'producer'}_signal_and_step()"


def _access(chance: random.Random, number: int, slot: str) -> list[str]:
    place, own = f"y[{slot}, 0]", f"seen{number}[i * {ROWS}, 0]"
    load, value = f"load({place}, {ROWS}, {COLUMNS})", f"fill(cast[f32](i + {10 * number}), f32, {ROWS}, {COLUMNS})"
    keep = [f"v = registers({load})", f"store.direct({own}, v)"]
    match number if chance.random() < 0.8 else chance.randrange(3):
        case 0:
            return [f"{chance.choice(('store', 'store.direct'))}({place}, {value})"]
        case 1:
            return [*keep, f"store.direct({place}, v + {value})"]
        case _:
            return keep


def _in(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
