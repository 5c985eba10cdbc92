"""Loop peeling: some first and last iterations apart from the ones between, for which conditions on the iteration are settled.

A role that runs ahead of another within an iteration (it multiplies the next scores before this block's values) has its first
iterations in front of the loop and a condition that ends it. In lockstep with others it is found when their loops are peeled, too:
each gives `peeled` iterations, as its first or as its last ones, and what is left runs equally often in all of them.
"""

from collections.abc import Callable, Iterator
from itertools import product

from pipec.checks.protocol_model import Choice, Compare, Item, Repeat
from pipec.record import record, replace

MOST_PEELED = 2
_MOST_WAYS = 128  # to share the peeled iterations out to the front and the end of each role's loop


@record
class Place:
    """Where an iteration stands: counted from the first and from the last, or None between them, where at least `before` and `behind`
    others stand around it."""

    from_first: int | None
    from_last: int | None
    before: int
    behind: int


def shortened(key: str, peeled: int) -> str:
    return f"({key}) but {peeled}"


def peeled_loop(loop: Repeat, front: int, back: int) -> tuple[Item, ...]:
    """The loop, run `front + back` times at least, with its first and last iterations apart."""
    items: list[Item] = []
    for index in range(front):
        items += _iteration(loop, Place(index, None, index, back), f"first {index} of {loop.key}")
    # Equal keys are equal values: between them the variable starts at `front`.
    name = f"({loop.name} + {front})" if front else loop.name
    body = _iteration(loop, Place(None, None, front, back), name)
    items.append(
        replace(loop, key=shortened(loop.key, front + back), body=body, name=name, least=max(0, loop.least - front - back))
    )
    for index in reversed(range(back)):
        items += _iteration(loop, Place(None, index, front, index), f"last {index} of {loop.key}")
    return tuple(items)


def written_out(loop: Repeat, count: int) -> tuple[Item, ...]:
    """The loop run `count` times."""
    items: list[Item] = []
    for index in range(count):
        left = count - 1 - index
        items += _iteration(loop, Place(index, left, index, left), f"iteration {index} of {count}")
    return tuple(items)


def taken_apart(items: tuple[Item, ...], key: str, front: int, back: int) -> tuple[Item, ...]:
    return _replaced(items, key, lambda loop: peeled_loop(loop, front, back))


def counted(items: tuple[Item, ...], key: str, count: int) -> tuple[Item, ...]:
    return _replaced(items, key, lambda loop: written_out(loop, count))


def ways(rest: dict[str, tuple[Item, ...]], key: str, peeled: int) -> Iterator[dict[str, int]]:
    """How many of the peeled iterations each role's loops give at the front, ways that settle conditions first."""
    choices = {role: _fronts(items, key, peeled) for role, items in rest.items() if _loops(items, key)}
    for count, fronts in enumerate(product(*choices.values())):
        if count == _MOST_WAYS:
            return
        yield dict(zip(choices, fronts, strict=True))


def keys(rest: dict[str, tuple[Item, ...]]) -> dict[str, int]:
    """The loops that can be peeled, and how often each runs at least."""
    return {
        item.key: item.least
        for items in rest.values()
        for item in items
        if isinstance(item, Repeat) and not item.key.startswith("(")
    }


def same_in_all_ctas(key: str) -> bool:
    """Whether a loop with these bounds runs equally often in all CTAs of a cluster; what one role alone can see may differ."""
    return not any(word in key for word in ("block.", "cta.", " at "))


def _loops(items: tuple[Item, ...], key: str) -> list[Repeat]:
    return [item for item in items if isinstance(item, Repeat) and item.key == key]


def _fronts(items: tuple[Item, ...], key: str, peeled: int) -> list[int]:
    def unsettled(front: int) -> int:
        place = Place(None, None, front, peeled - front)
        return sum(
            decide(item.test, place) is None
            for loop in _loops(items, key)
            for item in loop.body
            if isinstance(item, Choice) and item.test is not None and item.test.loop == loop.name
        )

    least = min(unsettled(front) for front in range(peeled + 1))
    return [front for front in reversed(range(peeled + 1)) if unsettled(front) == least]


def _replaced(items: tuple[Item, ...], key: str, how: Callable[[Repeat], tuple[Item, ...]]) -> tuple[Item, ...]:
    found: list[Item] = []
    for item in items:
        found += how(item) if isinstance(item, Repeat) and item.key == key else (item,)
    return tuple(found)


def _iteration(loop: Repeat, place: Place, name: str) -> tuple[Item, ...]:
    return _settled(loop.body, loop.name, place, name)


def _settled(items: tuple[Item, ...], loop: str, place: Place, name: str) -> tuple[Item, ...]:
    """The items where the loop's variable is called `name`, with the conditions on its iteration settled."""
    found: list[Item] = []
    for item in items:
        match item:
            case Choice():
                then, otherwise = (_settled(side, loop, place, name) for side in (item.then, item.otherwise))
                outcome = decide(item.test, place) if item.test is not None and item.test.loop == loop else None
                if outcome is None:
                    test = None if item.test is None or item.test.loop == loop else item.test
                    found.append(replace(item, key=item.key.replace(loop, name), then=then, otherwise=otherwise, test=test))
                else:
                    found += then if outcome else otherwise
            case Repeat():
                body = _settled(item.body, loop, place, name)
                found.append(replace(item, key=item.key.replace(loop, name), body=body))
            case _:
                found.append(item)
    return tuple(found)


def decide(test: Compare, place: Place) -> bool | None:
    """Whether the comparison holds there; None where it holds in some of the iterations only."""
    exact, least = (place.from_last, place.behind) if test.from_end else (place.from_first, place.before)
    if exact is not None:
        return _OPERATORS[test.operator](exact, test.number)
    match test.operator:
        case ">":
            return True if least > test.number else None
        case ">=":
            return True if least >= test.number else None
        case "<":
            return False if least >= test.number else None
        case "<=":
            return False if least > test.number else None
        case "==":
            return False if least > test.number else None
        case _:
            return True if least > test.number else None


_OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip
