"""Judges a kernel's protocol on the emitted PTX: proved and checked, refuted at some sizes, or not decided."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from pipec.budgets import BUDGETS
from pipec.protocol.effort import Effort, steps_so_far
from pipec.protocol.forms.everywhere import askable_formula
from pipec.protocol.judgement import Judgement, Side, as_accepted
from pipec.protocol.refuting.launches import ANY, Launches
from pipec.protocol.ways import Earlier, by_folding, by_numbers, by_pieces, by_search
from pipec.verify.network import Unreadable
from pipec.verify.reader.processes.fitting import adds_up
from pipec.verify.reader.processes.leaps import leaps
from pipec.verify.reader.read import Reading
from pipec.verify.reader.readings import readings_of
from pipec.verify.reader.values.interpretation import LIMITS, ROOMY, WHOLE
from pipec.verify.terms import Formula

_BRIEF = 300_000  # steps
_BRIEFEST = 40_000  # where loaded numbers are added up: what is not proved soon, mostly is not without assuming that they fit
_LEAST = 100_000  # of a reading, where the earlier ones have taken all steps: what is proved there mostly takes less


def judge(
    ptx: str,
    kernel: str,
    sides: Sequence[Side] = (),
    launches: Launches = ANY,
    asked: Callable[[Sequence[Formula]], bool] = lambda _: True,
    most: int | None = None,
    before: Judgement | None = None,
) -> Judgement:
    """Reads, proves and checks one kernel of a PTX text. `sides`: pipelines whose two sides must have advanced equally at the end;
    `launches`: whether a launch can have these sizes; `asked`: whether a launch can be required to satisfy the conditions. `most`: steps
    that each reading may take, and no other is begun behind twice as many. `before`: of the same text with more launches, whose
    deadlocks are not looked for again."""
    first: Judgement | None = None
    # Read so, it is proved by the first schedule, but under conditions that no launch can check: another reading is more likely to do
    # without them than another schedule.
    conditional: Reading | None = None
    earlier = Earlier(refuting=before is None)
    looked_at: set[Reading] = set()
    folded: set[Reading] = set()
    ended: set[Reading] = set()
    first_begun = steps_so_far()
    try:
        for reading, steps in _each_with_effort(readings_of(ptx, kernel), ended):
            if most is not None and first is not None and steps_so_far() - first_begun > 2 * most:
                break
            # The slower reading, which distinguishes wrapping from mere reinterpretation of the sign.
            if reading.how.as_read and first is not None and not _may_wrap(before or first):
                continue
            if earlier.lacks_it_again and not (reading.how.as_read or reading.how.fitting):
                continue  # the others fold up more or less of a number, which does not bound what is read from memory
            if reading not in looked_at and (found := by_pieces(reading, sides, asked)) is not None:
                return found
            if _is_for_pieces(reading):
                continue
            proof = None if reading in looked_at else by_folding(reading, sides, asked, earlier)
            looked_at.add(reading)
            begun = steps_so_far()
            left = steps or max(_LEAST, BUDGETS["all proof steps"].limit - (begun - first_begun))
            left = left if most is None else min(left, most)
            if not (steps or reading.how.fitting) and adds_up(reading.network):
                left = min(left, _BRIEF)
            effort = None if left >= BUDGETS["proof steps"].limit else Effort(combinations=left)
            found = proof or by_search(
                reading, sides, launches, earlier, effort, counting=not steps, any_conditions=reading.others
            )
            if found.certificate is None and found.deadlock is None and reading not in folded:
                folded.add(reading)
                found = by_folding(reading, sides, asked, earlier, counted=True) or found
                if found.certificate is None and found.by_memory is None:
                    found = by_numbers(reading, sides, asked) or found
            if 2 * (steps_so_far() - begun) < left:
                ended.add(reading)
            if found.certificate is not None and asked(found.certificate.assumes):
                found = as_accepted(found, reading)
                if found.certificate is not None:
                    return found
            if reading.others and found.certificate is not None and not all(map(askable_formula, found.certificate.assumes)):
                conditional = conditional or reading
            # (The condition that a proof would need is more informative than that there is none.)
            if first is None or reading.how.as_read and (found.deadlock is not None or first.certificate is None):
                first = found
            if found.by_memory is not None or found.deadlock is not None and found.deadlock.wraps is None:
                break
    except Unreadable as why:
        first = first or Judgement(None, why=str(why))
    assert first is not None
    if conditional is not None and first.deadlock is None:
        found = by_search(conditional, sides, launches, earlier)
        if found.certificate is not None and asked(found.certificate.assumes):
            return as_accepted(found, conditional)
    return first


def _each_with_effort(readings: Iterable[Reading], ended: Container[Reading]) -> Iterator[tuple[Reading, int]]:
    """The readings, with the steps that one may take, or 0 for what is left of all: the first ones briefly if one for launches of few
    blocks, or with loaded numbers whole, or with those from which loops go on, follows: walks over tiles, and bounds that are loaded, that
    are said in different ways are the same numbers only there, and whoever asks no more of a launch than the first readings do is found
    soon. That with larger numbers, which takes more steps, comes behind all of the first one, and briefly. `ended`: readings whose search
    has come to its end by itself."""
    brief: list[Reading] = []
    for reading in readings:
        of, how = reading.arithmetic, reading.how
        another = of.loads or of.placed and not how.near or of.widest > how.limit and leaps(reading.network)
        if how.limit == LIMITS[0] and not (how.as_read or how.fitting) and another:
            brief.append(reading)
            yield reading, _BRIEFEST if adds_up(reading.network) else _BRIEF
            continue
        yield reading, _BRIEF if how.limit == ROOMY else 0
        if reading.how.fitting:
            continue  # where these do not help, what is left of the earlier ones comes behind others
        for earlier in reversed(brief):
            if earlier not in ended:
                yield earlier, 0
        brief.clear()


def _is_for_pieces(reading: Reading) -> bool:
    """Whether it is read with whole numbers that are not loaded."""
    return reading.how.limit == WHOLE and not reading.arithmetic.loads


def _may_wrap(found: Judgement) -> bool:
    """Whether arithmetic overflows 32 bits at some sizes, or a proof would need sizes that a launch cannot enforce."""
    return found.certificate is not None or found.deadlock is not None and found.deadlock.wraps is not None
