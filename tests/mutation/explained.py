"""Why mutants of the checks survive, by file, line of code and change: what is equivalent, or only costs time."""

from collections.abc import Mapping, Sequence
from functools import cache

from mutation.operators import ROOT, Change

# A file, a line of it (without spaces at its ends), and what becomes of what: lines move, and what they say does not.
Place = tuple[str, str, str]


@cache
def _lines(file: str) -> Sequence[str]:
    return (ROOT / file).read_text(encoding="utf-8").split("\n")


def explained_by(change: Change) -> Place:
    line = _lines(change.file)[change.line - 1].strip()
    return change.file.removeprefix("pipec/"), line, f"{change.old.strip()} -> {change.new.strip()}"


WHY: Mapping[Place, str] = {
    (
        "verify/terms.py",
        "return 1",
        "1 -> 2",
    ): "symbols count twice: numbers are folded, and certificates refused, at half of the size",
    (
        "verify/definitions.py",
        "for other in self._atoms[: self._defined - 1]:",
        "1 -> 2",
    ): "one quotient fewer is compared: less is shown",
    (
        "verify/definitions.py",
        "if one.divisor == other.divisor and beside[one] & beside[other]:",
        "and -> or",
    ): "more quotients are compared, which takes time; what is added is shown each time",
    (
        "verify/definitions.py",
        'self._implied.append(Either((Compare("ge", scale(value, -1)), Compare("ge", left))))',
        "1 -> 2",
    ): "the same inequality: its coefficients are divided by their common factor",
    ("verify/logic.py", "found = False", "False -> True"): "a round more, in which nothing is new",
    (
        "verify/logic.py",
        "if self._at_hand(form) or self._nearby(form) or self.closed()._nearby(form):",
        "or -> and",
    ): "less is shown at once; a refutation of the opposite follows",
    ("verify/terms.py", "return _size_in(condition) + size_of(yes) + size_of(no)", "+ -> -"): "sizes only limit the effort",
    ("verify/checker/check.py", "if left[0] < 0:", "< -> <="): "one part fewer of 200 is tried: more is refused",
    (
        "verify/checker/knowledge.py",
        "sets[each_handed] = sets.get(each_handed, 0) | sets[each]",
        "0 -> 1",
    ): "bit 0 says that a use before the kernel is complete, which all know",
    (
        "verify/checker/configuration.py",
        "return tuple(process for process in waiting if before >= 0 and self.waited[ring, process] >> before & 1)",
        "& -> |",
    ): "also of those that have not waited it must be known that they have: more is refused",
    (
        "verify/checker/progress.py",
        "return [arrow for arrow, shrunk in zip(inside, shrinks, strict=True) if not shrunk]",
        "True -> False",
    ): "there is one for each",
    (
        "verify/reader/values/arithmetic.py",
        "if least < low:",
        "< -> <=",
    ): "nothing is below the least: what is added is a choice of 0",
    (
        "verify/reader/values/places.py",
        "rows = [column if column is not None else (value,) * length for column, value in zip(columns, (left, right), strict=True)]",
        "True -> False",
    ): "there are two of each",
    (
        "verify/reader/values/machine.py",
        "for step, moves in zip(steps, moving, strict=True):",
        "True -> False",
    ): "there is one for each",
    (
        "verify/reader/flow/slice.py",
        "return one.predicate is None and len(one.operands) == 1",
        "and -> or",
    ): "the prologue ends earlier; a barrier that is made ready behind it is not known, and the kernel not read",
    (
        "kir/global_memory/launches.py",
        "SIZES = ((256, 2), (144, 3), (640, 1), (48, 4), (2048, 3))",
        "3 -> 4",
    ): "which sizes are tried",
    (
        "kir/global_memory/launches.py",
        "near = sorted({abs(number) + off for number in stated for off in (-1, 0, 1)} - {0, -1})",
        "1 -> 2",
    ): "which sizes are tried",
    (
        "protocol/search/places.py",
        "made = self.found[key] = Place(self.situations[key[0]], key[1], key[2])",
        "1 -> 2",
    ): "a search for a certificate, which the checker judges",
    (
        "verify/reader/processes/loops.py",
        "leaves = what in block.loop and any(one not in block.loop for one in self.flow.blocks[what].next)",
        "and -> or",
    ): "what changes in a loop is generalised a round earlier",
    (
        "verify/reader/processes/loops.py",
        "elif entry is None or not isinstance(value, int) or (value - entry) % (1 << CTA_BITS):",
        "1 -> 2",
    ): "a guess at the tables of every other CTA is not taken; the rounds of the loop find them",
    (
        "verify/reader/values/compared.py",
        "difference = add(how.read(parts[0], signed, True), how.read(parts[1], signed, True), -1)",
        "True -> False",
    ): "a number with a counter and more in it becomes a function of them, of which less is known",
    (
        "verify/reader/text/operations.py",
        "return 0 if not b else -(-a // b) if (a < 0) != (b < 0) else a // b",
        "0 -> 1",
    ): "a quotient of 0 is 0, and a divisor of 0 does not come there",
    (
        "verify/reader/processes/rounds.py",
        "for _ in range(2 * _MOST_WOUND):",
        "* -> +",
    ): "rounds of a loop that are looked at: effort",
    (
        "verify/reader/values/arithmetic.py",
        "made = dict(zip(each, map(rule, zip(*columns)), strict=True))",
        "True -> False",
    ): "there is one for each",
    (
        "verify/reader/values/arithmetic.py",
        "if low == 0 or high < _SOURCE:",
        "or -> and",
    ): "of a number that is read without a sign it is required that it has none, in every reading: less is shown",
    (
        "protocol/deduction/premises.py",
        "constant, terms = tight(plus(scaled(left, high // common), right, low // common))",
        "// -> *",
    ): "a search for a certificate, which the checker judges",
    (
        "protocol/forms/everywhere.py",
        'bound = self.bound(formula.form) if isinstance(formula, Compare) and formula.relation == "ge" else None',
        "and -> or",
    ): "a search for a certificate, which the checker judges",
    (
        "protocol/forms/everywhere.py",
        'if not isinstance(fact, Compare) or fact.relation != "ge":',
        "or -> and",
    ): "a search for a certificate, which the checker judges",
    (
        "protocol/judge.py",
        "if found.certificate is not None and asked(found.certificate.assumes):",
        "is not -> is",
    ): "which of two judgements is tried first; the checker judges",
    (
        "kir/global_memory/launches.py",
        "places = [sorted(at for at in one if at < extent) for one, extent in zip(corners, grid, strict=True)]",
        "True -> False",
    ): "there is one for each",
    (
        "verify/inequalities.py",
        "if divisor == 1:",
        "== -> !=",
    ): "what rounding adds is lost: less is shown",
    (
        "kir/global_memory/equations.py",
        "if whole.parts and not rest.parts and rest.constant <= 0:",
        "<= -> <",
    ): "one bound fewer of a quotient: less is shown",
    (
        "kir/global_memory/equations.py",
        "return term.constant + sum(factor * self._end(atom, factor < 0, _DEEPEST) for atom, factor in term.parts)",
        "0 -> 1",
    ): "factors are not 0",
    (
        "protocol/variables/meanings.py",
        'yield from (Compare("ge", add(Linear(least - 1), each, -1)) for each in below)',
        "1 -> 2",
    ): "a search for a certificate, which the checker judges",
    (
        "protocol/deduction/premises.py",
        "if self.least.get(terms, constant + 1) <= constant:",
        "<= -> <",
    ): "a search for a certificate, which the checker judges",
    (
        "protocol/forms/ranges.py",
        "number = (self.number(place + pointer // _APART - 1) - least) % (most - least + 1) + least",
        "- -> +",
    ): "which numbers a run tries that looks for a deadlock",
    (
        "protocol/refuting/refute_by_memory.py",
        "first, told = meter.left, True",
        "True -> False",
    ): "which of two words is said of the sizes of a deadlock",
    (
        "protocol/restating/counted.py",
        "if waits and answer is None:",
        "is -> is not",
    ): "a search for a certificate, which the checker judges",
    (
        "protocol/restating/distances.py",
        "if one == self.counter.register and self.counter.start is None and not self.size.terms and not times % self.size.constant:",
        "== -> !=",
    ): "a search for a certificate, which the checker judges",
    (
        "protocol/restating/distances.py",
        "if len(one.arguments) != 2 or self.counter.start is not None:",
        "or -> and",
    ): "a search for a certificate, which the checker judges",
    (
        "protocol/restating/wording.py",
        "return (0, high) if low >= 0 else None",
        ">= -> >",
    ): "a search for a certificate, which the checker judges",
    (
        "protocol/restating/wording.py",
        'return choose(decided(Compare("ge", add(size, Linear(-1)))), size, Linear(1))',
        "1 -> 2",
    ): "a search for a certificate, which the checker judges",
    (
        "protocol/search/attempts.py",
        "yield [Attempt(Aligned(network, consumers, alignment), 100, products=True, roomy=True)]",
        "100 -> 101",
    ): "how long something is tried",
    (
        "protocol/search/runs.py",
        "if outcome not in place.outcomes:",
        "not in -> in",
    ): "a search for a certificate, which the checker judges",
    (
        "protocol/refuting/tried.py",
        "for number in (*range(stride - 1, stride + 3), *range(2 * stride - 1, 2 * stride + 2), stride + stride // 2):",
        "3 -> 4",
    ): "which sizes are tried",
    (
        "protocol/variables/variables.py",
        "for less, more in permutations(quotients, 2):",
        "2 -> 3",
    ): "a search for a certificate, which the checker judges",
    (
        "protocol/variables/variables.py",
        "_RENAMED = 30  # cost of substituting registers in a value, in row combinations",
        "30 -> 31",
    ): "effort",
    (
        "verify/checker/configuration.py",
        "return use < 0 or bool(self.done[ring] >> use & 1)",
        "0 -> 1",
    ): "the window has two uses more than any query reaches back: nobody asks about use 0",
    (
        "verify/reader/processes/tidy.py",
        "states.append(State(process.states[0].line, Test(TRUE, start, start)))",
        "0 -> 1",
    ): "which line of the text is told of a start",
    (
        "verify/renaming.py",
        'return any(isinstance(one, Product) or isinstance(one, Apply) and one.function == "product" for one, _ in form.terms)',
        "or -> and",
    ): "more products are multiplied out, which takes time",
    (
        "verify/reader/read.py",
        "whole = of.loads and (self.how.limit != WHOLE or self.how.near)",
        "!= -> ==",
    ): "whether another reading is tried: each is a sound one",
    ("verify/logic.py", "return True", "True -> False"): "less is shown at once; other steps find that nothing is possible",
    (
        "verify/reader/values/arithmetic.py",
        "case Linear(more, ((Floor(Linear(_, ((Choose(), 1),)) as inner, divisor), times),)) if times > 0:",
        "> -> >=",
    ): "no term is taken 0 times",
    (
        "verify/reader/values/arithmetic.py",
        "divisor, sign = abs(times) // factor, -1 if times > 0 else 1",
        "0 -> 1",
    ): "a quotient that is taken once leaves no part of a number",
    (
        "verify/reader/values/registers.py",
        "value = self._common(self.value(name, env)) if name else 0",
        "0 -> 1",
    ): "only whether it is a number is asked",
    (
        "verify/reader/processes/loops.py",
        "assert isinstance(at, Table) and isinstance(now, Table)",
        "and -> or",
    ): "both are tables there",
    (
        "kir/global_memory/overlaps.py",
        "return any(name not in turns or (access.handle is not None and access.tensor in suspects) for name, access in uses)",
        "in -> not in",
    ): "where all roles take turns the kernel takes several, and is not proved",
    (
        "kir/global_memory/access_pairs.py",
        "ahead = stop - 1 - start if step > 0 else start - stop - 1",
        "- -> +",
    ): "of the last one: more turns than a loop that counts down takes, so that less is shown; the others are noticed",
    (
        "kir/global_memory/access_pairs.py",
        "self.wrapping = self.wrapping or (blocks is not unwrapped(blocks) and whole.least < 0)",
        "is not -> is",
    ): "a number of blocks that may not fit is told of the coordinates, too, in all ten kernels that were tried",
    (
        "kir/global_memory/equations.py",
        "if self._most(inside[0], depth - 1) <= largest and self._never_negative(inside[0] - least, depth - 1):",
        "<= -> <",
    ): "a number that just fits is not taken for exact: less is shown",
}
