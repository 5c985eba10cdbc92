"""Wrong kernels made from right ones: each example, changed in one place in every way an author slips.

Works on source lines, which the examples keep one statement each; a statement is its line and the deeper lines below it. The
generator is deterministic: the same source gives the same mutants in the same order.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_STEP = "    "
_BODY = 8  # spaces before a role's statements
_ACQUIRE = re.compile(r"(?<!mma)\.(?:produce|consume|consume_explicit|acquire\w*)\(\)")
_KINDS = (
    ("acquire", re.compile(r"\w+ = .*\.acquire\w*\(\)")),
    ("commit", re.compile(r"mma\.commit\(")),
    ("release", re.compile(r"\w+\.release\w*\(")),
    ("arrive", re.compile(r"\w+\.arrive\(")),
    ("drain", re.compile(r"\w+\.drain\w*\(")),
    ("load", re.compile(r"tma\.load\(")),
    ("tma store", re.compile(r"tma\.store\(")),
    ("mma", re.compile(r"mma\(")),
    ("write", re.compile(r"write\(")),
    ("store", re.compile(r"store(?:\.direct)?\(")),
    ("with", re.compile(r"with ")),
    ("for", re.compile(r"for ")),
    ("if", re.compile(r"if ")),
)

# One form for another: what an author mixes up.
_FORMS = (
    (".produce()", ".consume()"),
    (".consume()", ".produce()"),
    (".consume()", ".consume_explicit()"),
    (".acquire_producer()", ".acquire_consumer()"),
    (".acquire_consumer()", ".acquire_producer()"),
    (".acquire_mma_linear()", ".acquire_epilogue_linear()"),
    (".acquire_epilogue_linear()", ".acquire_mma_linear()"),
    (".acquire_for_mma()", ".acquire_for_epilogue()"),
    (".acquire_for_epilogue()", ".acquire_for_mma()"),
    (".producer()", ".consumer()"),
    (".consumer()", ".producer()"),
    (".release()", ".release_without_signal()"),
    (".release_without_signal()", ".release()"),
    (".release()", ".arrive()"),
    (".arrive()", ".release()"),
    ("tma.store(", "store("),
    ("store(", "store.direct("),
)
_DTYPES = {"bf16": "f16", "f16": "bf16", "f32": "bf16", "AB": "f64", "ACC": "i16", "OUT": "i8"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """`group` is the kind of slip; `trips`: it may change how often a stage is obtained, which only the protocol checks can judge."""

    kernel: str
    group: str
    what: str
    line: int
    text: str
    trips: bool = False

    @property
    def name(self) -> str:
        return f"{self.kernel}:{self.line} {self.what}"


@dataclass(frozen=True, slots=True)
class _Statement:
    """Lines first .. end - 1; `last` when it ends its block."""

    first: int
    end: int
    indent: int
    kind: str
    alone: bool  # the only statement of its block

    @property
    def leaf(self) -> bool:
        return self.end == self.first + 1


@dataclass(frozen=True, slots=True)
class _Role:
    header: int
    statements: tuple[_Statement, ...]


class Source:
    """One kernel of a file; its mutants keep the rest of the file as it is."""

    def __init__(self, text: str, kernel: str) -> None:
        self.lines = text.splitlines()
        self.kernel = kernel
        self.first = next(number for number, line in enumerate(self.lines) if line.startswith(f"kernel {kernel}"))
        ends = (number for number in range(self.first + 1, len(self.lines)) if self.lines[number][:1].strip(" )]"))
        self.end = next(ends, len(self.lines))
        self.roles = tuple(self._roles())
        self.declared = range(self.first, self.roles[0].header)

    def _roles(self) -> Iterator[_Role]:
        headers = [n for n in range(self.first, self.end) if self.lines[n].startswith(_STEP + "role ")]
        for header, stop in zip(headers, [*headers[1:], self.end], strict=True):
            yield _Role(header, tuple(self._statements(header + 1, stop, _BODY)))

    def _statements(self, first: int, stop: int, indent: int) -> Iterator[_Statement]:
        starts = [n for n in range(first, stop) if self.indent(n) == indent]
        for start, after in zip(starts, [*starts[1:], stop], strict=True):
            end = max(n for n in range(start, after) if self.lines[n].strip()) + 1
            yield _Statement(start, end, indent, _kind(self.lines[start].strip()), len(starts) == 1)
            if end > start + 1:
                yield from self._statements(start + 1, end, indent + len(_STEP))

    def indent(self, number: int) -> int:
        line = self.lines[number]
        return len(line) - len(line.lstrip()) if line.strip() else -1

    def mutant(self, group: str, what: str, first: int, end: int, lines: list[str], trips: bool = False) -> Mutant:
        """Lines first .. end - 1 replaced."""
        text = "\n".join([*self.lines[:first], *lines, *self.lines[end:]]) + "\n"
        return Mutant(self.kernel, group, what, first + 1, text, trips)


def mutants(text: str, kernel: str) -> Iterator[Mutant]:
    source = Source(text, kernel)
    seen = {text}
    for make in (_drop, _duplicate, _move, _wrap, _forms, _names, _clauses, _declarations, _operands, _ranges):
        for mutant in make(source):
            if mutant.text not in seen:
                seen.add(mutant.text)
                yield mutant


def _kind(line: str) -> str:
    return next((kind for kind, pattern in _KINDS if pattern.match(line)), "assign")


def _all(source: Source) -> Iterator[_Statement]:
    for role in source.roles:
        yield from role.statements


def _obtains(source: Source, statement: _Statement) -> bool:
    return any(_ACQUIRE.search(line) for line in source.lines[statement.first : statement.end])


# ------------------------------------------------------------------------------------------------------------- statements


def _drop(source: Source) -> Iterator[Mutant]:
    for statement in _all(source):
        rest = [" " * statement.indent + "pass"] if statement.alone else []
        trips = _obtains(source, statement)
        yield source.mutant("drop", f"drop {statement.kind}", statement.first, statement.end, rest, trips)


def _duplicate(source: Source) -> Iterator[Mutant]:
    for statement in _all(source):
        lines = source.lines[statement.first : statement.end]
        trips = _obtains(source, statement)
        yield source.mutant("duplicate", f"duplicate {statement.kind}", statement.first, statement.end, lines + lines, trips)


def _move(source: Source) -> Iterator[Mutant]:
    """Past its neighbour; out of its block, upwards and downwards; to the end of the block."""
    for role in source.roles:
        for statement in role.statements:
            lines = source.lines[statement.first : statement.end]
            inside = [s for s in role.statements if s.indent == statement.indent and s.first >= statement.end]
            block = _enclosing(role, statement)
            stop = block.end if block else None
            after = [s for s in inside if stop is None or s.first < stop]
            trips = _obtains(source, statement)
            for name, other in (("past the next", after[:1]), ("to the end of its block", after[-1:])):
                for target in other:
                    moved = source.lines[statement.end : target.end] + lines
                    trips_too = trips or any(_ACQUIRE.search(line) for line in source.lines[statement.end : target.end])
                    yield source.mutant("move", f"move {statement.kind} {name}", statement.first, target.end, moved, trips_too)
            if block is None or statement.alone:
                continue
            shallower = [line.removeprefix(_STEP) for line in lines]
            rest = source.lines[block.first : statement.first] + source.lines[statement.end : block.end]
            word = source.lines[block.first].split()[0]
            for where, moved in (("above", shallower + rest), ("below", rest + shallower)):
                yield source.mutant("move", f"move {statement.kind} {where} its {word}", block.first, block.end, moved, trips)


def _enclosing(role: _Role, statement: _Statement) -> _Statement | None:
    around = [s for s in role.statements if s.first < statement.first and statement.end <= s.end]
    return max(around, key=lambda s: s.first, default=None)


_WRAPPERS = (
    "if block.x == 0:",
    "if lane_id() == 0:",
    "with elect():",
    "for again in range(2):",
    "for again in range(block.x):",
)


def _wrap(source: Source) -> Iterator[Mutant]:
    for statement in _all(source):
        for wrapper in _WRAPPERS:
            lines = [" " * statement.indent + wrapper, *(_STEP + line for line in source.lines[statement.first : statement.end])]
            what = f"{statement.kind} under `{wrapper}`"
            yield source.mutant("wrap", what, statement.first, statement.end, lines, _obtains(source, statement))


# ------------------------------------------------------------------------------------------------------- within a statement


def _replaced(source: Source, number: int, old: str, new: str) -> Iterator[list[str]]:
    """The line with each occurrence replaced, one at a time; names are whole words."""
    pattern = rf"(?<![\w.]){old}\b" if old.isidentifier() else re.escape(old)
    line = source.lines[number]
    for found in re.finditer(pattern, line):
        yield [line[: found.start()] + new + line[found.end() :]]


def _forms(source: Source) -> Iterator[Mutant]:
    for statement in _all(source):
        for old, new in _FORMS:
            for lines in _replaced(source, statement.first, old, new):
                what = f"`{old}` becomes `{new}`"
                yield source.mutant("form", what, statement.first, statement.first + 1, lines)


def _names(source: Source) -> Iterator[Mutant]:
    """One stage, tile, pipeline or buffer in place of another."""
    kernel = "\n".join(source.lines[source.first : source.end])
    pipelines = re.findall(r"^    (\w+) += \w+Pipeline\(", kernel, re.MULTILINE)
    tensors = re.findall(r"(\w+): tensor\[", kernel)
    tiles = [f".{name}" for name in re.findall(r"(\w+)=tile\[", kernel)]
    for role in source.roles:
        text = "\n".join(source.lines[role.header : max(s.end for s in role.statements)])
        stages = list(dict.fromkeys(re.findall(r"\bas (\w+)", text) + re.findall(r"(\w+) = \w+\.acquire", text)))
        for names, word in ((pipelines, "pipeline"), (stages, "stage"), (tensors, "tensor"), (tiles, "tile")):
            for statement in role.statements:
                for old in names:
                    for new in names:
                        if old != new:
                            for lines in _replaced(source, statement.first, old, new):
                                what = f"{word} `{old}` becomes `{new}`"
                                trips = statement.kind == "for"  # a name in a range
                                yield source.mutant("name", what, statement.first, statement.first + 1, lines, trips)


def _clauses(source: Source) -> Iterator[Mutant]:
    for role in source.roles:
        header = source.lines[role.header]
        changes = {
            "drop produces": re.sub(r" produces \w+(, \w+)*", "", header),
            "drop consumes": re.sub(r" consumes \w+(, \w+)*", "", header),
            "produces becomes consumes": header.replace(" produces ", " consumes "),
            "consumes becomes produces": header.replace(" consumes ", " produces "),
        }
        warps = re.search(r"warps=(\d+)", header)
        for count in (0, 1, 2, 3, 8):
            if warps:
                changes[f"warps={count}"] = header.replace(warps[0], f"warps={count}")
        for what, line in changes.items():
            if line != header:
                yield source.mutant("role", what, role.header, role.header + 1, [line])


def _declarations(source: Source) -> Iterator[Mutant]:
    for number in source.declared:
        line = source.lines[number]
        for found in re.finditer(r"(?:tile|tmem)\[(\w+), (\w+), (\w+)\]", line):
            dtype, rows, columns = found.groups()
            word = found[0][:4]
            for what, items in (
                ("sizes swapped", (dtype, columns, rows)),
                ("half the rows", (dtype, f"{rows} // 2", columns)),
                ("half the columns", (dtype, rows, f"{columns} // 2")),
                ("columns + 1", (dtype, rows, f"{columns} + 1")),
                ("twice the rows", (dtype, f"{rows} * 2", columns)),
                ("another type", (_DTYPES.get(dtype, "f32"), rows, columns)),
            ):
                changed = line[: found.start()] + f"{word}[{', '.join(items)}]" + line[found.end() :]
                yield source.mutant("declaration", f"{word}: {what}", number, number + 1, [changed])
        for found in re.finditer(r"(stages|count)=(\w+)", line):
            for value in ("0", "1", "33"):
                changed = line[: found.start(2)] + value + line[found.end(2) :]
                yield source.mutant("declaration", f"{found[1]}={value}", number, number + 1, [changed], value == "1")


def _operands(source: Source) -> Iterator[Mutant]:
    """What an operation is given: `accumulate`, `.T`, a coordinate, a barrier, a conversion."""
    for statement in _all(source):
        line, at = source.lines[statement.first].partition("  #")[0].rstrip(), statement.first
        changes: dict[str, str] = {}
        if line.strip().startswith("mma("):
            plain = re.sub(r", accumulate=[^)]*", "", line)
            for condition in ("True", "False", "k >= 0", "k > 1", "block.x > 0", "lane_id() > 0"):
                changes[f"accumulate={condition}"] = plain.rstrip(")") + f", accumulate={condition})"
            changes["without accumulate"] = plain
        changes["without .T"] = line.replace(".T", "", 1)
        changes["with .T"] = re.sub(r"(mma\([^)]*\b\w+\.[ab])\b", r"\1.T", line, count=1)
        changes["an odd coordinate"] = re.sub(r"\]\)?(?=[,)]|$)", " + 1]", line, count=1) if "tma.load" in line else line
        changes["a coordinate of a lane"] = line.replace("block.x", "lane_id()", 1)
        changes["without the cast"] = re.sub(r"cast\[\w+\]", "", line)
        for what, changed in changes.items():
            if changed != line and not (what == "an odd coordinate" and changed.count("(") != changed.count(")")):
                yield source.mutant("operand", what, at, at + 1, [changed])


def _ranges(source: Source) -> Iterator[Mutant]:
    for statement in _all(source):
        line = source.lines[statement.first]
        if statement.kind != "for" or "range(" not in line:  # the tiles of a scheduler have no bounds to change
            continue
        inside = line[line.index("range(") + len("range(") : line.rindex(")")]
        last = inside.split(", ")[-1] if inside.count(", ") == 1 and "ceildiv" not in inside else inside
        for what, new in (("one more trip", f"{last} + 1"), ("one trip less", f"{last} - 1"), ("no trip", "0")):
            changed = line.replace(f"{last})", f"{new})", 1) if last != inside else line.replace(inside, new, 1)
            yield source.mutant("trips", what, statement.first, statement.first + 1, [changed], True)
