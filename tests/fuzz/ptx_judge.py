"""What the proof says of a PTX text beside what happens in the simulator: two judges that share no code.

A contradiction is a text that is proved and goes wrong at sizes that the proof admits, in some schedule; and one that is refuted, with
sizes at which nothing goes wrong. Data is not part of the proof: races are not looked for here.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from unittest.mock import patch

import numpy as np
from effort import given_up_soon
from fuzz.ptx_kernels import SHARED_BYTES, SIZES
from verify.interpret import holds

from pipec.protocol import judge as judging
from pipec.protocol.forms.everywhere import askable_formula
from pipec.protocol.forms.sample import Numbers
from pipec.protocol.judgement import Judgement
from pipec.protocol.refuting import refute as refuting
from pipec.protocol.refuting.launches import Launches
from pipec.protocol.refuting.tried import small_sizes
from pipec.sim import Options, SimulationError, launch
from pipec.verify.network import Network, Wait
from pipec.verify.terms import Formula

# What the statement is about. Others (a text that the simulator does not take, a race) say nothing of it.
WRONG = frozenset({"deadlock", "step_limit", "undefined", "uninitialised", "byte_mismatch", "leaked_tmem"})
CHECKS = {name: "off" for name in ("race", "proxy", "fence", "uninitialised", "layout", "lanes", "grid", "peer", "bytes")}
STEPS = 6_000  # a run that ends takes a few hundred
SMALL = 8  # sizes at which a loop that does not end in so many steps never ends
EXTREMES = (0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
# Somebody signals a CTA that has ended, or a copy hits a barrier: docs/proof.md leaves that out. And lanes that came back together as
# every assembler makes them: the simulator may keep them apart.
_LEFT_OUT = re.compile("which has exited|has already exited|over a live mbarrier|is .aligned, but only")
_NAMED = {"loops": "step_limit", "given up": "mbarrier.inval"}  # what goes wrong where an assumption does not hold
# A loop that counts by one until it meets a number ends, whatever it begins with, but perhaps after 2^32 turns.
_COUNTS_AROUND = re.compile(
    r"^(L\d+):\s*(?:add|sub)\.[us]32 (%r\d+), \2, -?1;\s*setp\.ne\.[us]32 (%p\d+), \2, [^;]+;\s*@\3 bra \1;", re.MULTILINE
)
_RUNS = 25


@dataclass(frozen=True)
class Outcome:
    """`said`: proved, refuted, undecided, unread. `happened`: what went wrong at first, empty if nothing did. `contradiction`: empty if
    the judges agree, or one of them has no opinion. `schedules`: how many were simulated."""

    said: str
    happened: str = ""
    contradiction: str = ""
    schedules: int = 0
    why: str = ""


def judged(ptx: str, seed: int = 0, schedules: int = 6) -> Outcome:
    found = _said(ptx)
    assumed = {one.kind for one in found.network.assumptions} if found.network else set()
    if found.certificate is not None:
        if "polling" in assumed:
            return Outcome("undecided", why="polls")
        if not _askable(found.certificate.assumes):
            return Outcome("undecided", why="under conditions that no launcher can check")
        admitted = [sizes for sizes in _sizes(seed) if all(holds(one, dict(sizes)) for one in found.certificate.assumes)]
        happened, count = _happens(ptx, admitted, seed, schedules)
        # What is named as an assumption is not shown.
        named = any(kind in assumed and words in happened for kind, words in _NAMED.items())
        return Outcome("proved", happened, f"proved, but {happened}" if happened and not named else "", count)
    if found.deadlock is not None and not found.deadlock.why and found.deadlock.wraps is None and found.deadlock.uneven is None:
        if _waits_for_the_exited(found):
            return Outcome("refuted")
        sizes = {symbol.name: value for symbol, value in found.deadlock.sizes.items()}
        if not sizes.keys() <= {*SIZES} or any(abs(value) > SMALL for value in sizes.values()):
            return Outcome("refuted")
        happened, count = _happens(ptx, [{"n": 0, "m": 0} | sizes], seed, schedules)
        wrong = "" if happened or not count else f"refuted at {sizes}, but nothing goes wrong there"
        return Outcome("refuted", happened, wrong, count)
    said = "unread" if found.network is None else "undecided"
    return Outcome(said, contradiction=found.why if "the reader failed" in found.why else "", why=found.why)


def _waits_for_the_exited(found: Judgement) -> bool:
    """Whether all who are blocked wait for threads of their warp or block to meet while others have ended: PTX says that these are
    waited for, and machines do not wait for them."""
    assert found.network is not None and found.deadlock is not None
    actions = [found.network.processes[process].states[place].action for process, place in found.deadlock.blocked]
    kinds = {found.network.rings[action.use.ring].kind for action in actions if isinstance(action, Wait)}
    # Nor does the simulator wait at the barrier of a cluster where a thread has not arrived before.
    return bool(found.deadlock.ended) and kinds <= {"named", "warp"} or kinds == {"cluster"}


def _said(ptx: str) -> Judgement:
    """Proofs that are not found soon are given up: what is not proved contradicts nothing. Nor are conditions asked that no launcher can
    check, as of a number that the reader has folded up."""
    with given_up_soon(), patch.object(refuting, "small_sizes", _few_sizes):
        return judging.judge(ptx, "k", asked=_askable)


def _askable(conditions: Sequence[Formula]) -> bool:
    return all(map(askable_formula, conditions))


def _few_sizes(network: Network, launches: Launches) -> Iterator[Numbers]:
    return islice(small_sizes(network, launches), _RUNS)


def _sizes(seed: int) -> list[Mapping[str, int]]:
    small = [{"n": (seed + number) % 6, "m": (seed // 6 + number) % 5} for number in range(3)]
    return [*small, {"n": EXTREMES[seed % 3], "m": EXTREMES[seed // 3 % 3]}]


def _timings(seed: int) -> Iterator[tuple[str, int]]:
    yield from (("order", 0), ("late", 0))
    while True:
        yield "random", seed
        seed += 1


def _happens(ptx: str, sizes: list[Mapping[str, int]], seed: int, schedules: int) -> tuple[str, int]:
    """What goes wrong at first, and how many schedules were simulated to their end."""
    count = 0
    for numbers, (timing, number) in zip(
        [one for one in sizes for _ in range(schedules)], _repeated(seed, schedules), strict=False
    ):
        happened = _run(ptx, numbers, timing, number)
        # A large size may be a large number of turns, and so may a counter that begins anywhere.
        if happened.startswith("step_limit") and (max(numbers.values()) > SMALL or _COUNTS_AROUND.search(ptx)):
            continue
        if happened and (happened.partition(":")[0] not in WRONG or _LEFT_OUT.search(happened)):
            return "", 0
        count += 1
        if happened:
            return f"{happened} (n = {numbers['n']}, m = {numbers['m']}, timing {timing}, seed {number})", count
    return "", count


def _repeated(seed: int, schedules: int) -> Iterator[tuple[str, int]]:
    while True:
        for _, row in zip(range(schedules), _timings(seed), strict=False):
            yield row


def _run(ptx: str, sizes: Mapping[str, int], timing: str, seed: int) -> str:
    cluster = re.search(r"\.reqnctapercluster (\d+)", ptx)
    size = np.uint16 if ".param .u16 n" in ptx else np.uint32
    arguments = (*(size(sizes[name] & np.iinfo(size).max) for name in SIZES), np.zeros(SHARED_BYTES, np.uint8))
    options = Options(timing, seed, STEPS, trace=False, checks=CHECKS, rules="documents")  # type: ignore[arg-type]
    try:
        launch(ptx, "k", grid=int(cluster[1]) if cluster else 1, arguments=arguments, options=options)
    except SimulationError as error:
        return f"{error.kind}: {error.message.splitlines()[0]}"
    return ""


def kind_of(contradiction: str) -> str:
    """What it is about, whatever numbers are in it."""
    return re.sub(r"0x[0-9a-f]+|\d+", "N", contradiction.partition(" (n =")[0].partition("{")[0])[:60]


def shrunk(ptx: str, fails: Callable[[str], bool]) -> str:
    """The text without lines that it needs not to fail."""
    lines = ptx.split("\n")
    step = max(1, len(lines) // 4)
    while step:
        at = 0
        while at < len(lines):
            fewer = lines[:at] + lines[at + step :]
            if fails("\n".join(fewer)):
                lines = fewer
            else:
                at += step
        step //= 2
    return "\n".join(lines)
