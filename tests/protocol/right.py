"""Random right networks, by what makes them hard to follow: two spellings of a bound, lags, chains, nested loops against flat ones."""

import random
from collections.abc import Callable

from pipec.verify.network import Network
from pipec.verify.terms import Apply, Compare, Linear, add, atom, floor, scale
from tests.protocol.build import Consume, If, Loop, Pipes, Produce, below, network, size

n, m = size("n"), size("m")
ZERO = Linear(0)


class Draw:
    """Choices of one network."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.turned = self.random.random() < 0.7  # as compilers write loops

    def depth(self, least: int = 1) -> int:
        return self.random.randint(least, 4)

    def loop(self, start: object, stop: object, *body: object, variable: str = "k", step: int = 1) -> Loop:
        return Loop(variable, start, stop, body, step, self.turned)

    def tiles(self, *bodies: tuple[object, ...]) -> list[list[object]]:
        """The roles as they are, or each in a loop over tiles."""
        if self.random.random() < 0.5:
            return [list(body) for body in bodies]
        return [[self.loop(ZERO, m, *body, variable="t")] for body in bodies]


def pair(draw: Draw, produced: tuple[object, ...], consumed: tuple[object, ...], least: int = 1) -> Network:
    a, b = draw.tiles(produced, consumed)
    return network(Pipes({"p": draw.depth(least)}), {"a": a, "b": b})


def spellings(draw: Draw) -> Network:
    """Shifted, reversed in sign, rounded in another way."""
    shift, by = draw.random.randint(1, 5), draw.random.choice((2, 3, 4, 64))
    rounded = floor(add(n, Linear(by - 1)), by), scale(floor(scale(n, -1), by), -1)
    one, other = draw.random.choice(
        [((ZERO, n), (Linear(shift), add(n, Linear(shift)))), ((ZERO, rounded[0]), (ZERO, rounded[1]))]
    )
    return pair(draw, (draw.loop(*one, Produce("p")),), (draw.loop(*other, Consume("p")),))


def guarded(draw: Draw) -> Network:
    """The first turns stand before the loop, each under its condition."""
    turns = draw.random.randint(1, 2)
    first = [If(below(Linear(turn), n), (Consume("p"),)) for turn in range(turns)]
    return pair(draw, (draw.loop(ZERO, n, Produce("p")),), (*first, draw.loop(Linear(turns), n, Consume("p"))))


def ahead(draw: Draw) -> Network:
    """The consumer holds some stages, and gives the last back after the loop."""
    lag = draw.random.randint(1, 2)
    late = If(lambda *around: below(Linear(lag - 1), around[-1]), (Consume("p", lag=lag, obtain=False),))
    rest = [If(below(Linear(left), n), (Consume("p", lag=left, obtain=False),)) for left in reversed(range(lag))]
    consumed = (draw.loop(ZERO, n, Consume("p", free=False), late), *rest)
    return pair(draw, (draw.loop(ZERO, n, Produce("p")),), consumed, lag + 1)


def chain(draw: Draw) -> Network:
    count = draw.random.randint(2, 3)
    pipes = {f"p{number}": draw.depth() for number in range(count)}
    bodies: list[tuple[object, ...]] = [(draw.loop(ZERO, n, Produce("p0")),)]
    for number in range(1, count):
        bodies.append((draw.loop(ZERO, n, Consume(f"p{number - 1}"), Produce(f"p{number}")),))
    bodies.append((draw.loop(ZERO, n, Consume(f"p{count - 1}")),))
    return network(Pipes(pipes), dict(zip("abcd", draw.tiles(*bodies), strict=False)))


def reduction(draw: Draw) -> Network:
    """What is consumed in an inner loop is produced once for each turn of the outer one."""
    bodies = (
        (draw.loop(ZERO, n, Produce("p")),),
        (Produce("q", fill=False), draw.loop(ZERO, n, Consume("p")), Produce("q", obtain=False)),
        (Consume("q"),),
    )
    a, b, c = ([draw.loop(ZERO, m, *body, variable="t")] for body in bodies)
    return network(Pipes({"p": draw.depth(), "q": draw.depth()}), {"a": a, "b": b, "c": c})


def unrolled(draw: Draw) -> Network:
    """Several turns in one, and the rest in a loop of its own."""
    times = draw.random.randint(2, 4)
    whole = scale(floor(n, times), times)
    consumed = (
        draw.loop(ZERO, floor(n, times), *(Consume("p") for _ in range(times))),
        draw.loop(whole, n, Consume("p"), variable="r"),
    )
    return pair(draw, (draw.loop(ZERO, n, Produce("p")),), consumed)


def strides(draw: Draw) -> Network:
    step = draw.random.randint(2, 5)
    rounded = floor(add(n, Linear(step - 1)), step)
    return pair(draw, (draw.loop(ZERO, n, Produce("p"), step=step),), (draw.loop(ZERO, rounded, Consume("p")),))


def flat(draw: Draw) -> Network:
    """A loop of a few turns within another, against one loop."""
    few = draw.random.randint(2, 4)
    nested = draw.loop(ZERO, n, draw.loop(ZERO, Linear(few), Produce("p"), variable="j"))
    return pair(draw, (nested,), (draw.loop(ZERO, scale(n, few), Consume("p")),))


def parted(draw: Draw) -> Network:
    """One loop against two in a row."""
    return pair(
        draw,
        (draw.loop(ZERO, add(n, m), Produce("p")),),
        (draw.loop(ZERO, n, Consume("p")), draw.loop(ZERO, m, Consume("p"), variable="j")),
    )


def parity(draw: Draw) -> Network:
    """Even turns go to one consumer, odd turns to another."""
    even = lambda *around: Compare("eq", add(around[-1], floor(around[-1], 2), -2))
    bodies = (
        (draw.loop(ZERO, n, If(even, (Produce("p"),), (Produce("q"),))),),
        (draw.loop(ZERO, floor(add(n, Linear(1)), 2), Consume("p")),),
        (draw.loop(ZERO, floor(n, 2), Consume("q")),),
    )
    return network(Pipes({"p": draw.depth(), "q": draw.depth()}), dict(zip("abc", draw.tiles(*bodies), strict=True)))


def filled(draw: Draw) -> Network:
    """All stages are filled, then all are read."""
    depth = draw.random.randint(2, 4)
    fill = [Produce("p", lag=depth - 1 - number, obtain=False) for number in range(depth)]
    produced = (*(Produce("p", fill=False) for _ in range(depth)), *fill)
    consumed = (
        *(Consume("p", free=False) for _ in range(depth)),
        *(Consume("p", lag=depth - 1 - number, obtain=False) for number in range(depth)),
    )
    bodies = draw.tiles((draw.loop(ZERO, n, *produced),), (draw.loop(ZERO, n, *consumed),))
    return network(Pipes({"p": depth}), dict(zip("ab", bodies, strict=True)))


def loaded(draw: Draw) -> Network:
    """The bound of the inner loop is read from memory, for each tile."""
    count = lambda *around: atom(Apply("load.u32", (around[-1],)))
    a, b = ([draw.loop(ZERO, m, draw.loop(ZERO, count, body), variable="t")] for body in (Produce("p"), Consume("p")))
    return network(Pipes({"p": draw.depth()}), {"a": a, "b": b})


def skipped(draw: Draw) -> Network:
    """Some turns are left out, by the same condition in both roles."""
    taken = lambda *around: Compare("ge", add(around[-1], scale(floor(around[-1], 3), 3), -1))
    other = draw.random.choice([taken, lambda *around: below(Linear(2), around[-1]), lambda *around: below(n, m)])
    return pair(draw, (draw.loop(ZERO, n, If(other, (Produce("p"),))),), (draw.loop(ZERO, n, If(other, (Consume("p"),))),))


def split(draw: Draw) -> Network:
    """Two rings under one stage."""
    produced = (draw.loop(ZERO, n, Produce("p"), Produce("q")),)
    consumed = (draw.loop(ZERO, n, Consume("p"), Consume("q")),)
    depth = draw.depth()
    bodies = draw.tiles(produced, consumed)
    return network(Pipes({"p": depth, "q": depth}), dict(zip("ab", bodies, strict=True)))


KINDS: tuple[Callable[[Draw], Network], ...] = (
    spellings, guarded, ahead, chain, reduction, unrolled, strides, flat, parted, parity, filled, loaded, skipped, split,
)  # fmt: skip


def right(seed: int) -> tuple[str, Network]:
    kind = KINDS[seed % len(KINDS)]
    return kind.__name__, kind(Draw(seed))
