"""Faults planted into a right kernel, one at a time: what one role does is changed, and what the others expect of it is not.

Some leave the kernel right, at all sizes or at most: the judges say which.
"""

import random
from collections.abc import Callable, Sequence

from fuzz.protocol_kernels import Cond, Item, Kernel, Loop, Op, operations

from pipec.record import replace

Change = Callable[[Sequence[Item], random.Random], list[tuple[Item, ...]]]  # every way to change these items; each alone


def faulty_kernel(kernel: Kernel, draw: random.Random) -> Kernel | None:
    """The kernel with one fault; None where the kind of fault that was drawn does not fit."""
    kind = draw.choice(tuple(_KINDS))
    if kind == "a stage less":
        return _a_stage_less(kernel, draw)
    number = draw.randrange(len(kernel.roles))
    role = kernel.roles[number]
    sides = _sides(role.items)
    changed = [items for items in _everywhere(role.items, _KINDS[kind], draw) if items != role.items and _keeps(items)]
    changed = [items for items in changed if _sides(items) == sides]
    if not changed:
        return None
    roles = (*kernel.roles[:number], replace(role, items=draw.choice(changed)), *kernel.roles[number + 1 :])
    return replace(kernel, roles=roles, fault=f"{kind}, in {role.name}")


def _sides(items: Sequence[Item]) -> set[tuple[str, bool]]:
    """The pipelines that a role produces and consumes: it is refused at once where it has nothing to do with one that it declares."""
    return {(op.pipe, op.kind == "take") for op in operations(items) if op.kind in ("take", "get")}


def _everywhere(items: Sequence[Item], change: Change, draw: random.Random) -> list[tuple[Item, ...]]:
    found = change(items, draw)
    for place, item in enumerate(items):
        if isinstance(item, (Loop, Cond)):
            for body in _everywhere(item.body, change, draw):
                found.append((*items[:place], replace(item, body=body), *items[place + 1 :]))
    return found


def _keeps(items: Sequence[Item]) -> bool:
    """Whether the linear discipline holds: what is obtained in a block is given up later in it, and operands are read into an
    accumulator. (The rest is refused before any question of order comes up.)"""
    open_: set[int] = set()
    for item in items:
        if isinstance(item, Op):
            if item.kind in ("take", "get"):
                open_.add(item.hold)
            elif item.kind in ("give", "free"):
                if item.hold not in open_:
                    return False
                open_.remove(item.hold)
        elif not item.body or not _keeps(item.body):
            return False
    return not open_


def _held(items: Sequence[Item]) -> list[tuple[int, int]]:
    """Places of the two ends of each hold."""
    begins = {item.hold: at for at, item in enumerate(items) if isinstance(item, Op) and item.kind in ("take", "get")}
    ends = [(item.hold, at) for at, item in enumerate(items) if isinstance(item, Op) and item.kind in ("give", "free")]
    return [(begins[hold], at) for hold, at in ends if hold in begins]


def _dropped(items: Sequence[Item], draw: random.Random) -> list[tuple[Item, ...]]:
    return [tuple(item for at, item in enumerate(items) if at not in ends) for ends in _held(items)]


def _doubled(items: Sequence[Item], draw: random.Random) -> list[tuple[Item, ...]]:
    found = []
    for first, last in _held(items):
        again = tuple(replace(op, hold=op.hold + 500) for op in (items[first], items[last]) if isinstance(op, Op))
        found.append((*items[: last + 1], *again, *items[last + 1 :]))
    return found


def _swapped(items: Sequence[Item], draw: random.Random) -> list[tuple[Item, ...]]:
    return [(*items[:at], items[at + 1], items[at], *items[at + 2 :]) for at in range(len(items) - 1)]


def _moved(items: Sequence[Item], draw: random.Random) -> list[tuple[Item, ...]]:
    """Hand-overs out of a loop or branch, in front of it or behind it."""
    found: list[tuple[Item, ...]] = []
    for at, item in enumerate(items):
        if isinstance(item, (Loop, Cond)):
            for first, last in _held(item.body):
                ops = (item.body[first], item.body[last])
                body = tuple(one for place, one in enumerate(item.body) if place not in (first, last))
                rest = (replace(item, body=body),) if body else ()
                found += [(*items[:at], *ops, *rest, *items[at + 1 :]), (*items[:at], *rest, *ops, *items[at + 1 :])]
    return found


def _bounds(items: Sequence[Item], draw: random.Random) -> list[tuple[Item, ...]]:
    found = []
    for at, item in enumerate(items):
        if isinstance(item, Loop):
            for bound in (f"{item.bound} + 1", f"{item.bound} - 1", "m" if item.bound == "n" else "n"):
                found.append((*items[:at], replace(item, bound=bound), *items[at + 1 :]))
    return found


def _wrapping_bounds(items: Sequence[Item], draw: random.Random) -> list[tuple[Item, ...]]:
    """Bounds that are the same in unbounded integers, or at small sizes."""
    found = []
    for at, item in enumerate(items):
        if isinstance(item, Loop):
            for bound in (
                f"{item.bound} if n + 2147483644 > 0 else 0",
                f"max({item.bound}, n - 2147483647 + 3)",
                f"({item.bound}) * 65536 * 32768 // 65536 // 32768",
            ):
                found.append((*items[:at], replace(item, bound=bound), *items[at + 1 :]))
    return found


def _wrapping_conditions(items: Sequence[Item], draw: random.Random) -> list[tuple[Item, ...]]:
    found = []
    for at, item in enumerate(items):
        if isinstance(item, Loop):
            condition = Cond(f"{{{item.variable}}} + {draw.choice((2147483645, 2147483646, 2147483647))}", ">", "0", item.body)
            found.append((*items[:at], replace(item, body=(condition,)), *items[at + 1 :]))
    return found


def _conditions(items: Sequence[Item], draw: random.Random) -> list[tuple[Item, ...]]:
    found = []
    for at, item in enumerate(items):
        if isinstance(item, Cond):
            for changed in (
                replace(item, right=f"{item.right} + 1"),
                replace(item, relation="!=" if item.relation == "==" else "=="),
                replace(item, left="m", right="n"),
            ):
                found.append((*items[:at], changed, *items[at + 1 :]))
            found.append((*items[:at], *item.body, *items[at + 1 :]))
    return found


def _guarded(items: Sequence[Item], draw: random.Random) -> list[tuple[Item, ...]]:
    """A hand-over that only some sizes, or some blocks, come to."""
    found = []
    conditions = (("n", ">", "0"), ("m", "<", "3"), ("n", "!=", "4"), ("block.x", "==", "0"), ("load(ix[1])", "==", "2"))
    for first, last in _held(items):
        inside = items[first : last + 1]
        if _keeps(inside):
            found.append((*items[:first], Cond(*draw.choice(conditions), tuple(inside)), *items[last + 1 :]))
    return found


def _turns(items: Sequence[Item], draw: random.Random) -> list[tuple[Item, ...]]:
    found = []
    for at, item in enumerate(items):
        if isinstance(item, Op) and item.kind == "turn":
            found += [(*items[: at + 1], item, *items[at + 1 :]), (*items[:at], *items[at + 1 :])]
            found.append((*items[:at], Cond("block.x", "==", "0", (item,)), *items[at + 1 :]))
            found.append((*items[:at], Loop("n", "i900", (item,)), *items[at + 1 :]))
    return found


def _drains(items: Sequence[Item], draw: random.Random) -> list[tuple[Item, ...]]:
    """A role waits until all is read that it filled: while it is, that may be never."""
    pipes = {op.pipe for op in operations(items) if op.kind == "take"}
    return [(*items[:at], Op("drain", pipe, 0), *items[at:]) for pipe in sorted(pipes) for at in range(len(items) + 1)]


def _a_stage_less(kernel: Kernel, draw: random.Random) -> Kernel | None:
    large = [number for number, pipe in enumerate(kernel.pipes) if pipe.stages > 1]
    if not large:
        return None
    number = draw.choice(large)
    pipe = kernel.pipes[number]
    pipes = (*kernel.pipes[:number], replace(pipe, stages=pipe.stages - 1), *kernel.pipes[number + 1 :])
    return replace(kernel, pipes=pipes, fault=f"a stage less of {pipe.name}")


_KINDS: dict[str, Change] = {
    "a hand-over dropped": _dropped,
    "a hand-over twice": _doubled,
    "two statements exchanged": _swapped,
    "a hand-over moved out of a block": _moved,
    "another bound": _bounds,
    "a bound that wraps": _wrapping_bounds,
    "a condition that wraps": _wrapping_conditions,
    "another condition": _conditions,
    "a condition more": _guarded,
    "turns": _turns,
    "a drain more": _drains,
    "a stage less": lambda items, draw: [],
}
