"""The failure of a search, and where the roles stood."""

from collections.abc import Iterator
from typing import Any

from pipec.protocol.schedules.schedule import Situation, Stuck
from pipec.record import record
from pipec.verify.checker.configuration import Configuration, Refused
from pipec.verify.network import Action, End, Wait
from pipec.verify.terms import Apply, Choose, Compare, Formula, Symbol, atom, forms_of, symbols_of


@record
class Standing:
    """A process that has not ended, at a line of the PTX; `ring`: of the barrier that it waits for, if any; `register`: that may wrap."""

    process: int
    line: int
    ring: int | None = None
    register: str = ""


class Undecided(Exception):
    """No certificate was found; says why. `hopeless`: other attempts will fail likewise. `standing`: the processes whose next step was
    not found, `uneven`: the ring of full barriers that advanced further than that of empty ones. `asked`: the question at which it
    failed, `told`: the earlier outcomes of tests of sizes; `required`: what did not follow, if that is what stopped it; `lacks`: the same
    of a whole search, if no schedule got past it."""

    def __init__(
        self, why: str, *, hopeless: bool = False, standing: tuple[Standing, ...] = (), uneven: int | None = None
    ) -> None:
        super().__init__(why)
        self.hopeless, self.standing, self.uneven = hopeless, standing, uneven
        self.asked: Formula | None = None
        self.told: tuple[Formula, ...] = ()
        self.required: Formula | None = None
        self.lacks: Formula | None = None

    def again(self, *, hopeless: bool = False, lacks: Formula | None = None) -> "Undecided":
        """The same failure of a larger part of the search."""
        made = Undecided(str(self), hopeless=hopeless, standing=self.standing, uneven=self.uneven)
        made.lacks = lacks
        return made

    def alike(self, other: "Undecided") -> bool:
        """Whether the search failed at the same place."""
        return self.asked is not None and (self.asked, self.told) == (other.asked, other.told)


STUCK = "stuck"
TOO_LONG = "the search has taken too long"
TOO_MANY = "too many situations"
UNEVEN = "a pipeline is filled more often than it is given back"


def stopped(why: Stuck | Refused, *, hopeless: bool = False) -> Undecided:
    standing = _waiting(why.at) if isinstance(why, Stuck) else ()
    return Undecided(str(why) or STUCK, hopeless=hopeless, standing=standing)


def at_test(situation: Situation[Any]) -> tuple[Standing, ...]:
    """The process that branches next."""
    return () if situation.test is None else (Standing(situation.test, situation.at.line(situation.test)),)


def wrapping(why: Undecided, situation: Situation[Any]) -> tuple[Standing, ...]:
    """The process whose register may wrap."""
    names = sorted({one.name for one in _added_up(why.required) if ":" in one.name}) if why.required is not None else []
    # (With a star a register has what it has in other words.)
    found = [(int(process), register.rstrip("*")) for process, _, register in (name.partition(":") for name in names)]
    return tuple(Standing(process, situation.at.line(process), register=register) for process, register in found[:1])


def _added_up(formula: Formula) -> Iterator[Symbol]:
    """What is computed with: not what decides between two numbers, nor where one is loaded."""
    for form in forms_of(formula):
        for one, _ in form.terms:
            match one:
                case Choose(_, yes, no):
                    yield from (each for part in (yes, no) for each in _added_up(Compare("ge", part)))
                case Apply(function, _) if function.startswith("ld."):
                    pass
                case _:
                    yield from symbols_of(atom(one))


def _waiting(at: Configuration) -> tuple[Standing, ...]:
    going = [process for process in range(len(at.places)) if not isinstance(at.action(process), End)]
    return tuple(Standing(process, at.line(process), _ring(at.action(process))) for process in going)


def _ring(action: Action) -> int | None:
    return action.use.ring if isinstance(action, Wait) else None
