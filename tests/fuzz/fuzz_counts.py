"""Random kernels whose roles count stages in different words: where one is proved, neither waits for the
other for ever, whatever a launch may have."""

import random
from itertools import islice

from fuzz.count_kernels import Program, draw

from pipec.driver import Compilation, Options, compile_source
from pipec.source import Source
from pipec.verify.conditions import met
from pipec.verify.data import formula_of

COUNT = 1000
LAUNCHES = 400
_FIRST = 120  # launches that are counted before it is compiled
_SMALL = 800  # what is wrong where all numbers are less is refused, as runs of the protocol find it
_TRIED = 0.05  # of those that are wrong so


def attempt(chance: random.Random) -> str | None:
    while True:
        program = draw(chance)
        if chance.random() < _TRIED or not _soon_wrong(program, chance):
            return judged(program, chance, compile_source(Source("k.pipe", program.source), Options("sm_90a")))


def _soon_wrong(program: Program, chance: random.Random) -> bool:
    small = (one for one in islice(program.launches(chance), _FIRST) if max(one.values()) < _SMALL)
    return any(program.hangs(one, chance.getrandbits(30)) for one in small)


def judged(program: Program, chance: random.Random, state: Compilation) -> str | None:
    if any(one.code == "E0001" for one in state.diagnostics):
        return f"# {[one.title for one in state.diagnostics]}\n{program.source}"
    if state.failed or state.plans is None:
        return None
    conditions = [formula_of(one) for one in state.plans[0].interface.conditions]
    for numbers in islice(program.launches(chance), LAUNCHES):
        if not all(met(one, numbers) for one in conditions):
            continue
        if program.hangs(numbers, memory := chance.getrandbits(30)):
            return f"# {state.protocol['k'].sentence}\n# {program.counts(numbers, memory)} stages: {numbers}\n{program.source}"
    return None
