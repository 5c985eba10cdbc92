"""Wrong versions of a PTX text: every change to one of its barrier instructions.

A barrier instruction makes a barrier ready, waits for one, arrives there, announces or delivers bytes, or lets threads meet; the register
that addresses the barrier of another CTA, and a branch around such an instruction, belong to it. Each mutant changes one thing at one line.
Whether it still is a right kernel is not decided here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

BARRIER = re.compile(
    r"\s+(@!?\S+\s+)?(mbarrier\.|tcgen05\.commit|\S*mbarrier::complete_tx|cp\.async\.mbarrier|clusterlaunchcontrol\.try"
    r"|bar(rier)?\.(cta\.)?(sync|arrive)|barrier\.cluster|bar\.warp\.sync|mapa\S*\s+remote)"
)
_PREDICATE = re.compile(r"(\s+)@(!?)(\S+)\s+")
_LAST_ADDRESS = re.compile(r"\[([%$\w]+)(?:\+(\d+))?\](?=[^\[]*$)")
_COUNT = re.compile(r"(?:mbarrier\.(?:init|arrive)\S*\s.*\], |bar\.sync\s+\d+, )(%r\d+|\d+);")
_PARITY = re.compile(r"try_wait.*, (%r\d+);")
_NAMED = re.compile(r"(bar(?:rier)?\.(?:cta\.)?(?:sync|arrive)\s+)(\d+)")
_RANK = re.compile(r"mapa\S*\s+\S+, \S+, (%r\d+|\d+);")
_MASK = re.compile(r"multicast::cluster.*, (%rs\d+);")
_BRANCH = re.compile(r"\s+@(!?)(\S+) bra(?:\.uni)? \s*(\S+);")
_LABEL = re.compile(r"(\S+):")
_FAR = 40  # lines that a branch around a barrier instruction skips at most
NEW = "%mutant"  # a register that the text does not have, nor declares: `declared` does


@dataclass(frozen=True)
class Mutant:
    """`line` (from 1) of the text, what was done to it, and the whole text with that done."""

    line: int
    change: str
    text: str


def mutants(ptx: str) -> Iterator[Mutant]:
    """All mutants of a text with one kernel."""
    lines = ptx.split("\n")
    loops = _loops(lines)
    for number, line in enumerate(lines):
        if BARRIER.match(line):
            for change, instead in _replaced(line):
                yield Mutant(number + 1, change, _joined(lines, number, number + 1, instead))
            for change, at in _moved(number, loops):
                yield Mutant(number + 1, change, _with_moved(lines, number, at))
        elif _guards(lines, number):
            for change, instead in _branches(line):
                yield Mutant(number + 1, change, _joined(lines, number, number + 1, instead))


def declared(mutant: str) -> str:
    """The text with the registers that a change brought in: the reader takes them as they are, the simulator does not."""
    width = "b16" if re.search(rf"\.b16 \t{NEW},", mutant) else "b32"
    return mutant.replace("\n{\n", f"\n{{\n\t.reg .pred {NEW}p;\n\t.reg .{width} {NEW};\n", 1) if NEW in mutant else mutant


def kernel_text(ptx: str, kernel: str) -> str:
    """The text without the other kernels of the file."""
    begins = [found.start() for found in re.finditer(r"^(?:// pipec\.kernel |\.visible \.entry )", ptx, re.MULTILINE)]
    entry = re.search(rf"\.entry {re.escape(kernel)}\b", ptx)
    assert entry
    starts = [at for at in begins if at < entry.start()]
    first = starts[-2] if len(starts) > 1 and ptx.startswith("// pipec", starts[-2]) else starts[-1]
    return ptx[: begins[0]] + ptx[first : ptx.index("\n}", entry.start()) + 3]


# ------------------------------------------------------------------------------------------------------ at the same place


def _replaced(line: str) -> Iterator[tuple[str, str]]:
    yield "removed", ""
    yield "twice", f"{line}\n{line}"
    for change in (_addresses, _numbers, _predicates):
        yield from change(line)


def _addresses(line: str) -> Iterator[tuple[str, str]]:
    """The barrier of another stage, of another name, of another CTA."""
    found = _LAST_ADDRESS.search(line)
    if found and "mapa" not in line and "[remote]" not in line:
        for by in (8, -8):
            offset = int(found[2] or 0) + by
            if offset >= 0:
                yield f"barrier at {by:+}", f"{line[: found.start()]}[{found[1]}+{offset}]{line[found.end() :]}"
    if named := _NAMED.search(line):
        yield "barrier named otherwise", f"{line[: named.start(2)]}{int(named[2]) + 5}{line[named.end(2) :]}"
    if "[remote]" in line:
        yield "barrier of the remote stage at +8", f"\tadd.s32 \t{NEW}, remote, 8;\n{line.replace('[remote]', f'[{NEW}]')}"
    if rank := _RANK.search(line):
        yield "CTA + 1", _changed(line, rank, "add.s32", 1)
        yield "CTA 0", f"{line[: rank.start(1)]}0{line[rank.end(1) :]}"
    if mask := _MASK.search(line):
        yield "CTAs without the first", f"\tand.b16 \t{NEW}, {mask[1]}, 65534;\n{line.replace(f', {mask[1]};', f', {NEW};')}"
        yield "CTAs and one more", f"\tor.b16 \t{NEW}, {mask[1]}, 128;\n{line.replace(f', {mask[1]};', f', {NEW};')}"


def _numbers(line: str) -> Iterator[tuple[str, str]]:
    """Another number of arrivals, of bytes, another parity."""
    if count := _COUNT.search(line):
        what = "bytes" if "expect_tx" in line else "threads" if "bar." in line else "arrivals"
        by = {"bytes": 16, "threads": 32, "arrivals": 1}[what]
        for operation, sign in (("add.s32", "+"), ("sub.s32", "-")):
            yield f"{what} {sign}{by}", _changed(line, count, operation, by)
    elif re.search(r"\smbarrier\.arrive", line) and "expect_tx" not in line:
        yield "arrivals +1", line.replace("];", "], 2;")
    if parity := _PARITY.search(line):
        yield "other parity", _changed(line, parity, "xor.b32", 1)


def _predicates(line: str) -> Iterator[tuple[str, str]]:
    """By other threads than it was."""
    if found := _PREDICATE.match(line):
        yield "predicate left out", found[1] + line[found.end() :]
        yield "predicate turned", f"{found[1]}@{'' if found[2] else '!'}{found[3]} {line[found.end() :]}"
        return
    first = f"\tmov.u32 \t{NEW}, %laneid;\n\tsetp.eq.s32 \t{NEW}p, {NEW}, 0;\n"
    yield "by lane 0 alone", f"{first}\t@{NEW}p {line.lstrip()}"
    yield "not by lane 0", f"{first}\t@!{NEW}p {line.lstrip()}"


def _changed(line: str, operand: re.Match[str], operation: str, by: int) -> str:
    """The line with the matched operand, a register or a number, changed by an operation that is put in front."""
    if operand[1].isdigit():
        value = {"add.s32": int(operand[1]) + by, "sub.s32": int(operand[1]) - by, "xor.b32": int(operand[1]) ^ by}[operation]
        return f"{line[: operand.start(1)]}{value}{line[operand.end(1) :]}"
    return f"\t{operation} \t{NEW}, {operand[1]}, {by};\n{line[: operand.start(1)]}{NEW}{line[operand.end(1) :]}"


# --------------------------------------------------------------------------------------------------------- around branches


def _guards(lines: list[str], number: int) -> bool:
    """Whether the line is a branch forward around a barrier instruction, or back to one that waits."""
    found = _BRANCH.match(lines[number])
    if not found:
        return False
    label = f"{found[3]}:"
    after = lines[number + 1 : number + 1 + _FAR]
    if label in after:
        return any(map(BARRIER.match, after[: after.index(label)]))
    before = lines[max(0, number - 6) : number]
    return label in before and any("try_wait" in line for line in before[before.index(label) :])


def _branches(line: str) -> Iterator[tuple[str, str]]:
    yield "branch removed", ""
    yield "branch always", _PREDICATE.sub(r"\1", line, count=1)
    yield "branch turned", line.replace("@!", "@") if "@!" in line else line.replace("@", "@!")


# ----------------------------------------------------------------------------------------------------- into and out of loops


def _loops(lines: list[str]) -> list[tuple[int, int]]:
    """First and last line of every loop: a label, and the last branch back to it. (A wait that is tried again is one too.)"""
    labels = {found[1]: number for number, line in enumerate(lines) if (found := _LABEL.fullmatch(line.strip()))}
    ends: dict[int, int] = {}
    for number, line in enumerate(lines):
        target = re.search(r"\bbra(?:\.uni)?\s+(\S+);", line)
        if target and labels.get(target[1], number) < number:
            ends[labels[target[1]]] = number
    return sorted(ends.items())


def _moved(number: int, loops: list[tuple[int, int]]) -> Iterator[tuple[str, int]]:
    """Where else the line could stand: before or behind the innermost loop around it, or in the next loop before or behind it."""
    around = [loop for loop in loops if loop[0] < number <= loop[1]]
    if around:
        first, last = min(around, key=lambda loop: loop[1] - loop[0])
        yield "moved in front of its loop", first
        yield "moved behind its loop", last + 1
    behind = [first for first, _ in loops if number < first]
    if behind:
        yield "moved into the next loop", min(behind) + 1
    before = [last for _, last in loops if last < number]
    if before:
        yield "moved into the loop before", max(before)


def _with_moved(lines: list[str], number: int, at: int) -> str:
    """The line taken out, and put in front of what was line `at`."""
    line = lines[number]
    kept = [*lines[:number], "", *lines[number + 1 :]]
    return "\n".join([*kept[:at], line, *kept[at:]])


def _joined(lines: list[str], first: int, last: int, instead: str) -> str:
    return "\n".join([*lines[:first], instead, *lines[last:]])
