"""Variants of what programs are written like: other numbers of stages, turns and roles, other spellings, the same in another order. Each
stands beside one that is wrong in a way that is easy to overlook: the right one is proved, the wrong one is not."""

from collections.abc import Iterator

import pytest

from pipec.protocol.effort import Effort
from pipec.protocol.prove import Undecided, prove
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.network import Network
from pipec.verify.terms import Apply, Compare, Formula, Linear, add, atom, choose, floor, scale
from tests.protocol.build import Consume, If, Loop, Pipes, Produce, below, network, size

n, m = size("n"), size("m")
ZERO, ONE = Linear(0), Linear(1)
Body = tuple[object, ...]
Variant = tuple[str, Network, Network]


def turns(bound: Linear, *body: object, start: Linear = ZERO, step: int = 1, name: str = "i") -> Loop:
    return Loop(name, start, bound, body, step)


def pair(produced: Body, consumed: Body, depth: int = 2) -> Network:
    return network(Pipes({"p": depth}), {"a": produced, "b": consumed})


def answered(asks: Body, answers: Body, depth: int, back: int) -> Network:
    """p one way, q the other."""
    return network(Pipes({"p": depth, "q": back}), {"a": asks, "b": answers})


def smaller(one: Linear, other: Linear) -> Linear:
    return choose(below(one, other), one, other)


def below_counter(least: int) -> object:
    return lambda *around: below(Linear(least - 1), around[-1])


def ahead() -> Iterator[Variant]:
    """A role reads answers so many turns late; wrong: it reads one more behind the loop, or less fits in than it has asked."""
    b: Body = (turns(n, Consume("p"), Produce("q")),)
    for late in (1, 2, 3, 4, 5):
        steady = turns(n, Produce("p"), If(below_counter(late), (Consume("q"),)))
        for depth in (1, 3):
            right = answered((steady, turns(smaller(n, Linear(late)), Consume("q"), name="r")), b, depth, late)
            more = answered((steady, turns(smaller(n, Linear(late + 1)), Consume("q"), name="r")), b, depth, late)
            yield f"ahead {late} of {depth}", right, more
    for late in (2, 3):
        first: Body = tuple(If(below(Linear(turn), n), (Produce("p"),)) for turn in range(late))
        rest: Body = tuple(If(below(Linear(turn), n), (Consume("q"),)) for turn in range(late))
        for body in ((Produce("p"), Consume("q")), (Consume("q"), Produce("p"))):
            main = turns(n, *body, start=Linear(late))
            yield (
                f"prologue {late} {body[0]}",
                answered((*first, main, *rest), b, late, late),
                answered((*first, main, *rest[1:]), b, late, late),
            )


def shares() -> Iterator[Variant]:
    """Turns go to pipelines in turn; wrong: a reader begins at another turn."""
    for ways, depth in ((2, 1), (2, 3), (3, 2), (3, 4)):
        body: Body = (Produce(f"p{ways - 1}"),)
        for way in reversed(range(ways - 1)):
            body = (If(_remainder(ways, way), (Produce(f"p{way}"),), body),)
        sides = {f"b{way}": (turns(n, Consume(f"p{way}"), start=Linear(way), step=ways),) for way in range(ways)}
        other = {**sides, "b1": (turns(n, Consume("p1"), start=Linear((1 + 1) % ways), step=ways),)}
        pipes = Pipes({f"p{way}": depth for way in range(ways)})
        yield (
            f"share of {ways} by {depth}",
            network(pipes, {"a": (turns(n, *body),), **sides}),
            network(pipes, {"a": (turns(n, *body),), **other}),
        )


def _remainder(ways: int, way: int) -> object:
    return lambda *around: Compare("eq", add(add(around[-1], floor(around[-1], ways), -ways), Linear(-way)))


def bounds() -> Iterator[Variant]:
    """One number, made in two ways; wrong: in one case it is another."""
    positive = choose(below(ZERO, n), n, ZERO)
    for by in (2, 3, 7, 64):
        up = floor(add(n, Linear(by - 1)), by)
        more = choose(Compare("ne", add(n, floor(n, by), -by)), ONE, ZERO)
        yield f"ceil {by}", _twice(up, add(floor(n, by), more)), _twice(up, floor(n, by))
        stride = pair((turns(n, Produce("p"), step=by),), (turns(up, Consume("p")),))
        yield f"stride {by}", stride, pair((turns(n, Produce("p"), step=by),), (turns(floor(n, by), Consume("p")),))
        parts = turns(floor(n, by), *[Consume("p")] * by), turns(n, Consume("p"), start=scale(floor(n, by), by), name="r")
        yield f"unrolled {by}", pair((turns(n, Produce("p")),), parts, 3), pair((turns(n, Produce("p")),), parts[:1], 3)
    yield "shifted", _twice(n, n, Linear(5), add(n, Linear(5))), _twice(n, n, Linear(5), add(n, Linear(4)))
    yield "smaller", _twice(smaller(n, m), smaller(m, n)), _twice(smaller(n, m), n)
    yield "larger", _twice(choose(below(n, m), m, n), add(add(n, m), smaller(n, m), -1)), _twice(choose(below(n, m), m, n), n)
    yield "not negative", _twice(n, positive), _twice(n, add(positive, ONE))
    loaded = atom(Apply("ld.global.u32", (ZERO,)))
    yield "loaded", _twice(loaded, loaded), _twice(loaded, atom(Apply("ld.global.u32", (ONE,))))
    yield (
        "two parts",
        pair((turns(add(n, m), Produce("p")),), (turns(m, Consume("p")), turns(n, Consume("p"), name="r"))),
        pair((turns(add(n, m), Produce("p")),), (turns(m, Consume("p")), turns(m, Consume("p"), name="r"))),
    )


def _twice(one: Linear, other: Linear, start: Linear = ZERO, stop: Linear | None = None) -> Network:
    loop = turns(other, Consume("p")) if stop is None else turns(stop, Consume("p"), start=start)
    return pair((turns(one, Produce("p")),), (loop,))


def chains() -> Iterator[Variant]:
    """Each role passes on what it has read, one turn later; wrong: one role has a turn less."""
    for roles in (3, 4, 6, 8):
        names = [f"p{role}" for role in range(roles - 1)]

        def made(short: bool, roles: int = roles, names: list[str] = names) -> Network:
            bodies: dict[str, Body] = {"r0": (turns(n, Produce(names[0])),)}
            for role in range(1, roles - 1):
                read, fill = Consume(names[role - 1]), Produce(names[role])
                bound = add(n, Linear(-1)) if short and role == roles // 2 else n
                first, last = If(below(ZERO, n), (read,)), If(below(ZERO, n), (fill,))
                bodies[f"r{role}"] = (first, turns(bound, read, fill, start=ONE), last)
            bodies[f"r{roles - 1}"] = (turns(n, Consume(names[-1])),)
            return network(Pipes({name: 1 + number % 3 for number, name in enumerate(names)}), bodies)

        yield f"chain of {roles}", made(short=False), made(short=True)


def guarded() -> Iterator[Variant]:
    """Turns that are left out, and conditions around loops; wrong: at the edge the conditions differ."""
    conditions: list[tuple[str, object, object, object]] = [
        ("first", lambda *i: below(i[-1], m), lambda *i: below(i[-1], m), lambda *i: below(add(i[-1], Linear(-1)), m)),
        (
            "last",
            lambda *i: Compare("eq", add(add(n, i[-1], -1), Linear(-1))),
            lambda *i: below(n, add(i[-1], Linear(2))),
            _always,
        ),
        ("not first", below_counter(1), lambda *i: Compare("ne", i[-1]), _always),
    ]
    for name, one, other, wrong in conditions:
        produced: Body = (turns(n, If(one, (Produce("p"),))),)
        yield (
            f"condition {name}",
            pair(produced, (turns(n, If(other, (Consume("p"),))),)),
            pair(produced, (turns(n, If(wrong, (Consume("p"),))),)),
        )
    enough: Formula = below(ONE, n)
    yield (
        "condition around",
        pair((If(enough, (turns(n, Produce("p")),)),), (turns(n, If(enough, (Consume("p"),))),)),
        pair((If(enough, (turns(n, Produce("p")),)),), (turns(n, Consume("p")),)),
    )


def _always(*_: Linear) -> Formula:
    return Compare("ge", ZERO)


VARIANTS = [*ahead(), *shares(), *bounds(), *chains(), *guarded()]
_LITTLE = Effort(visits=100, runs=60)  # what is wrong takes any search to its end


@pytest.mark.sample(0.4)
@pytest.mark.parametrize(("right", "wrong"), [row[1:] for row in VARIANTS], ids=[row[0] for row in VARIANTS])
def test_right_variants_are_proved_and_wrong_ones_are_not(right: Network, wrong: Network) -> None:
    pairs = [(ring, ring + 1) for ring in range(0, len(right.rings), 2)]
    check(right, prove(right, pairs=pairs))
    with pytest.raises((Undecided, Refused)):
        check(wrong, prove(wrong, _LITTLE, pairs))
