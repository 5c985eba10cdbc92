"""What one instruction of PTX becomes where a fault is planted into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Instruction:
    guard: str
    opcode: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.guard}{self.opcode} {', '.join(self.operands)};"

    def replaced(self, place: int, operand: str) -> Instruction:
        operands = list(self.operands)
        operands[place] = operand
        return replace(self, operands=tuple(operands))

    def computed(self, place: int, type_: str, code: str) -> str:
        """With another operand, which `code` makes in %own of the one that it has."""
        return f"{{ .reg .{type_} %own; mov.{type_} %own, {self.operands[place]}; {code} {self.replaced(place, '%own')} }}"


# What is done, and what stands in place of the instruction.
Change = tuple[str, str]
Changes = Callable[[Instruction], Iterator[Change]]


def _removed(one: Instruction) -> Iterator[Change]:
    yield "removed", ""


def _doubled(one: Instruction) -> Iterator[Change]:
    yield "doubled", f"{one} {one}"


def _unguarded(one: Instruction) -> Iterator[Change]:
    if one.guard:
        yield "by all threads", str(replace(one, guard=""))


# ---- mbarriers


def _not_waited(one: Instruction) -> Iterator[Change]:
    yield "removed", f"{one.guard}setp.eq.u32 {one.operands[0].partition('|')[0]}, 0, 0;"


def _parity(one: Instruction) -> Iterator[Change]:
    if ".parity" in one.opcode:
        yield "the other parity", one.computed(2, "b32", "xor.b32 %own, %own, 1;")
        if not one.operands[2].isdigit():
            for value in (0, 1):
                yield f"always parity {value}", str(one.replaced(2, str(value)))


def _next_barrier(one: Instruction) -> Iterator[Change]:
    for place, operand in enumerate(one.operands):
        if operand.startswith("[") and "+" not in operand:
            yield "the next barrier", str(one.replaced(place, f"{operand[:-1]}+8]"))
            return


def _count(place: int, *steps: int) -> Changes:
    def changes(one: Instruction) -> Iterator[Change]:
        for step in steps:
            yield f"count {step:+}", one.computed(place, "b32", f"add.s32 %own, %own, {step};")

    return changes


def _arrivals(one: Instruction) -> Iterator[Change]:
    if one.opcode.startswith("mbarrier.arrive") and len(one.operands) == 2:
        yield "count +1", str(replace(one, operands=(*one.operands, "2")))


def _kept_phase(one: Instruction) -> Iterator[Change]:
    if one.operands[-1] == "1":
        yield "kept", f"{one.guard}mov.b32 {one.operands[0]}, {one.operands[1]};"


# ---- groups, fences, barriers


def _more_groups(one: Instruction) -> Iterator[Change]:
    if one.operands and one.operands[-1].isdigit():
        yield "one group more", str(one.replaced(-1, str(int(one.operands[-1]) + 1)))


def _source_alone(one: Instruction) -> Iterator[Change]:
    if "bulk" in one.opcode and not one.opcode.endswith(".read"):
        yield "of the source alone", str(replace(one, opcode=f"{one.opcode}.read"))


def _other_memory(one: Instruction) -> Iterator[Change]:
    """The proxy fence is for memory of the other kind."""
    if one.opcode.startswith("fence.proxy.async"):
        other = "shared::cta" if one.opcode.endswith(".global") else "global"
        yield "other memory", f"{one.guard}fence.proxy.async.{other};"


def _other_fence(one: Instruction) -> Iterator[Change]:
    """Of the other direction, or one that orders no proxies."""
    if one.opcode.startswith("fence.proxy.async"):
        yield "of memory alone", f"{one.guard}fence.acq_rel.cta;"
    for side, other in (("before", "after"), ("after", "before")):
        if one.opcode == f"tcgen05.fence::{side}_thread_sync":
            yield "of the other side", f"{one.guard}tcgen05.fence::{other}_thread_sync;"


def _fewer_warps(one: Instruction) -> Iterator[Change]:
    if len(one.operands) > 1 and one.operands[1].isdigit():
        yield "a warp less", str(one.replaced(1, str(int(one.operands[1]) - 32)))


def _not_waiting(one: Instruction) -> Iterator[Change]:
    """Arrives at a barrier, and goes on."""
    if ".sync" in one.opcode and len(one.operands) > 1:
        yield "arrives alone", str(replace(one, opcode=one.opcode.replace(".sync", ".arrive")))


def _other_barrier(one: Instruction) -> Iterator[Change]:
    if one.operands and one.operands[0].isdigit():
        yield "another barrier", str(one.replaced(0, str(int(one.operands[0]) ^ 8)))


def _narrower(one: Instruction) -> Iterator[Change]:
    """The scope of the CTA, and no order at all."""
    if (
        narrow := re.sub(r"\.(cluster|gpu|sys)(?![\w:])", ".cta", one.opcode)
    ) != one.opcode and "barrier.cluster" not in one.opcode:
        yield "scope cta", str(replace(one, opcode=narrow))
    if one.opcode.startswith("barrier.cluster.arrive") and "relaxed" not in one.opcode:
        weak = one.opcode.replace(".release", "").replace("arrive", "arrive.relaxed")
        yield "relaxed", str(replace(one, opcode=weak))
    elif re.search(r"\.(release|acquire|acq_rel)", one.opcode) and not one.opcode.startswith(("fence", "barrier")):
        yield "relaxed", str(replace(one, opcode=re.sub(r"\.(release|acquire|acq_rel)", ".relaxed", one.opcode)))


def _arrives_early(one: Instruction) -> Iterator[Change]:
    """Of the two parts of a cluster barrier, one alone."""
    yield "one part removed", ""
    yield "one part doubled", f"{one} {one}"


def _in_two_parts(one: Instruction) -> Iterator[Change]:
    """A load and a store, and nothing atomic."""
    found = re.fullmatch(r"(?:atom|red)\.(?:\w+\.)*?(global|shared(?:::cta)?)\.(?:\w+\.)*?add\.([usb](?:32|64))", one.opcode)
    if found is None:
        return
    space, type_ = found.groups()
    type_ = type_.replace("b", "u")
    place = one.operands[-2]
    own = "%own" if one.opcode.startswith("red") else one.operands[0]
    code = f"{one.guard}ld.{space}.{type_} {own}, {place};"
    code += f" {one.guard}add.{type_} %sum, {own}, {one.operands[-1]}; {one.guard}st.{space}.{type_} {place}, %sum;"
    yield "a load and a store", f"{{ .reg .b{type_[1:]} %own, %sum; {code} }}"


# ---- matrix units and copies

# PTX ISA 9.7.15.5.1 and 9.7.16.4.1: the start in bits 0 to 13, the offsets from 16 and 32 on, the base offset in 49 to 51, the swizzle
# in 61 to 63 (62 and 63 for wgmma).
_FIELDS = {
    "start + 16 bytes": "add.s64 %own, %own, 1;",
    "start + 32 bytes": "add.s64 %own, %own, 2;",
    "start + 128 bytes": "add.s64 %own, %own, 8;",
    "start + 1024 bytes": "add.s64 %own, %own, 64;",
    "leading offset": "xor.b64 %own, %own, 0x10000;",
    "stride offset": "xor.b64 %own, %own, 0x4000000000;",
    "base offset": "xor.b64 %own, %own, 0x2000000000000;",
    "another swizzle": "xor.b64 %own, %own, 0x4000000000000000;",
    "no swizzle": "and.b64 %own, %own, 0x1FFFFFFFFFFFFFFF;",
}


def _descriptor(one: Instruction) -> Iterator[Change]:
    for place in (1,) if one.opcode.startswith("tcgen05.cp") else (1, 2):
        if one.operands[place][0] not in "[{":
            for field, code in _FIELDS.items():
                yield field, one.computed(place, "b64", code)


# PTX ISA 9.7.16.4.2: of kind f16, and of most of its fields in the others.
_BITS = {
    "type of D": 4,
    "type of A": 7,
    "type of B": 10,
    "sign of A": 13,
    "sign of B": 14,
    "transposed A": 15,
    "transposed B": 16,
    "N": 17,
    "M": 27,
}


def _instruction_descriptor(one: Instruction) -> Iterator[Change]:
    for field, bit in _BITS.items():
        yield field, one.computed(3, "b32", f"xor.b32 %own, %own, {1 << bit:#x};")


def _transposed(one: Instruction) -> Iterator[Change]:
    for place, name in ((-2, "A"), (-1, "B")):
        if len(one.operands) == 8 and one.operands[place] in ("0", "1"):
            yield f"transposed {name}", str(one.replaced(place, str(1 - int(one.operands[place]))))


def _negated(one: Instruction) -> Iterator[Change]:
    for place, name in ((4, "A"), (5, "B")):
        if len(one.operands) in (6, 8) and one.operands[place] == "1":
            yield f"sign of {name}", str(one.replaced(place, "-1"))


def _accumulates(one: Instruction) -> Iterator[Change]:
    """Whether D is added to: never, and always."""
    for place, operand in enumerate(one.operands):
        if re.fullmatch(r"%?p\w*", operand):
            for name, compared in (("never adds to D", "ne"), ("always adds to D", "eq")):
                yield name, f"{{ .reg .pred %own; setp.{compared}.u32 %own, 0, 0; {one.replaced(place, '%own')} }}"
            return


def _bytes(one: Instruction) -> Iterator[Change]:
    """A bulk copy of 16 bytes more, or less."""
    place = next((place for place in (2, 1) if len(one.operands) > place and not one.operands[place].startswith("[")), None)
    if ".tensor" not in one.opcode and place is not None:
        for step in (-16, 16):
            yield f"{step:+} bytes", one.computed(place, "b32", f"add.s32 %own, %own, {step};")


def _one_cta(one: Instruction) -> Iterator[Change]:
    """For the own CTA alone, instead of for several or for a pair."""
    if ".multicast::cluster" in one.opcode and "commit" in one.opcode:
        opcode = one.opcode.replace(".multicast::cluster", "")
        yield "not to others", str(replace(one, opcode=opcode, operands=one.operands[:1]))
    if ".cta_group::2" in one.opcode:
        yield "of one CTA", str(replace(one, opcode=one.opcode.replace(".cta_group::2", ".cta_group::1")))


def _mask(one: Instruction) -> Iterator[Change]:
    if "multicast" in one.opcode:
        for value in (1, 2):
            yield f"mask {value}", one.computed(1 if "commit" in one.opcode else 3, "b16", f"mov.b16 %own, {value};")


def _other_rank(one: Instruction) -> Iterator[Change]:
    yield "the other rank", one.computed(2, "b32", "xor.b32 %own, %own, 1;")


def _coordinates(one: Instruction) -> Iterator[Change]:
    """Of the first two dimensions of a box: exchanged, or a box further."""
    for place, operand in enumerate(one.operands):
        found = re.fullmatch(r"\[(.+?),\s*\{(.+)\}\]", re.sub(r"\s+", " ", operand))
        if found is None:
            continue
        first, *others = (part.strip() for part in found[2].split(","))
        if others and others[0] != first:
            swapped = ", ".join([others[0], first, *others[1:]])
            yield "coordinates exchanged", str(one.replaced(place, f"[{found[1]}, {{{swapped}}}]"))
        moved = one.replaced(place, f"[{found[1]}, {{{', '.join(['%own', *others])}}}]")
        yield "64 elements further", f"{{ .reg .b32 %own; add.s32 %own, {first}, 64; {moved} }}"
        return


def _tile_place(one: Instruction) -> Iterator[Change]:
    """Where in shared memory a copy begins."""
    for place, operand in enumerate(one.operands[:2]):
        found = re.fullmatch(r"\[\s*([%\w$]+)\s*\]", operand)
        if found is not None and (place == 0) == (".shared::cluster.global" in one.opcode or ".shared::cta.global" in one.opcode):
            yield "tile + 1024 bytes", str(one.replaced(place, f"[{found[1]}+1024]"))
            return


# ---- tensor memory


def _half(one: Instruction) -> Iterator[Change]:
    yield "half the columns", one.computed(1, "b32", "shr.u32 %own, %own, 1;")


def _column(one: Instruction) -> Iterator[Change]:
    for place, operand in enumerate(one.operands):
        found = re.fullmatch(r"\[\s*([%\w$]+)\s*(?:\+\s*(\d+))?\s*\]", operand)
        if found is not None:
            for step in (1, 16):
                yield f"{step} columns further", str(one.replaced(place, f"[{found[1]} + {int(found[2] or 0) + step}]"))
            return


def _other_wait(one: Instruction) -> Iterator[Change]:
    """For stores instead of loads, and the other way round."""
    for kind, other in (("::ld", "::st"), ("::st", "::ld")):
        if kind in one.opcode:
            yield "of the other kind", str(replace(one, opcode=one.opcode.replace(kind, other)))


# ---- who does it, and how often


def _registers(one: Instruction) -> Iterator[Change]:
    if ".inc" in one.opcode and one.operands[0] != "256":
        yield "8 more", str(one.replaced(0, str(int(one.operands[0]) + 8)))
    if ".dec" in one.opcode:
        yield from _removed(one)


def _everybody(one: Instruction) -> Iterator[Change]:
    """Every lane takes itself for the one that was elected."""
    _, _, elected = one.operands[0].partition("|")
    yield "all lanes", f"{one} {one.guard}setp.eq.u32 {elected.strip()}, 0, 0;"


_INCLUDING = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "lo": "ls", "ls": "lo", "hi": "hs", "hs": "hi"}


def _bound(one: Instruction) -> Iterator[Change]:
    """One more, or one less."""
    _, comparison, *types = one.opcode.split(".")
    if comparison in _INCLUDING:
        yield "bound by one", str(replace(one, opcode=".".join(["setp", _INCLUDING[comparison], *types])))
    elif comparison in ("eq", "ne") and re.fullmatch(r"-?\d+", one.operands[-1]) and types[-1][1:] == "32":
        yield "compared with one more", str(one.replaced(-1, str(int(one.operands[-1]) + 1)))


def _swapped(one: Instruction) -> Iterator[Change]:
    """The other one of two values: a stage that goes on where the ring ends, and begins anew elsewhere."""
    if one.operands[1] != one.operands[2]:
        yield "the other value", str(one.replaced(1, one.operands[2]).replaced(2, one.operands[1]))


def _pattern(one: Instruction) -> Iterator[Change]:
    """A swizzle, or whatever else bits are exchanged for; a parity has a change of its own."""
    if one.operands[-1] != "1":
        yield "bits as they are", f"{one.guard}mov.b32 {one.operands[0]}, {one.operands[1]};"


def _distance(one: Instruction) -> Iterator[Change]:
    if re.fullmatch(r"[1-9]\d?", one.operands[-1]):
        yield "half as far", str(one.replaced(-1, str(int(one.operands[-1]) - 1)))


def _inverted(one: Instruction) -> Iterator[Change]:
    if one.guard:
        guard = one.guard.replace("@!", "@") if "!" in one.guard else one.guard.replace("@", "@!")
        yield "by the others", str(replace(one, guard=guard))


def _turned(one: Instruction) -> Iterator[Change]:
    other = one.opcode.replace(".trans", "") if ".trans" in one.opcode else re.sub(r"(\.x[124])", r"\1.trans", one.opcode)
    if ".m8n8" in one.opcode and other != one.opcode:
        yield "transposed or not", str(replace(one, opcode=other))


def _step(one: Instruction) -> Iterator[Change]:
    """Of a stage, or of whatever else is counted."""
    if one.operands[-1] == "1":
        for step in (0, 2):
            yield f"steps by {step}", str(one.replaced(-1, str(step)))


def _shifted(one: Instruction) -> Iterator[Change]:
    """16 bytes further in shared memory."""
    for place, operand in enumerate(one.operands):
        found = re.fullmatch(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\d+))?\s*\]", operand)
        if found is not None:
            yield "16 bytes further", str(one.replaced(place, f"[{found[1]}+{int(found[2] or 0) + 16}]"))
            return


_COPY = r"cp\.async\.bulk\.(tensor\S*\.)?(shared|global)"
RULES: tuple[tuple[str, str, tuple[Changes, ...]], ...] = (
    ("wait for an mbarrier", r"mbarrier\.(try|test)_wait", (_not_waited, _parity, _next_barrier)),
    ("announced bytes", r"mbarrier\.(arrive\.)?expect_tx", (_count(-1, -16, 16), _removed, _doubled, _next_barrier)),
    ("arrival", r"mbarrier\.arrive(?!\.expect_tx)|cp\.async\.mbarrier", (_removed, _doubled, _next_barrier, _arrivals)),
    ("initialisation", r"mbarrier\.init", (_count(1, -1, 1), _removed)),
    ("commit", r"tcgen05\.commit", (_removed, _doubled, _next_barrier)),
    ("commit", r"(wgmma|cp\.async(\.bulk)?)\.commit_group", (_removed,)),
    ("wait of a group", r"(wgmma|cp\.async(\.bulk)?)\.wait_(group|all)", (_removed, _more_groups, _source_alone)),
    ("wait of tensor memory", r"tcgen05\.wait", (_removed, _other_wait)),
    ("wait for the preceding grid", r"griddepcontrol\.wait", (_removed,)),
    ("proxy fence", r"fence\.proxy", (_removed, _other_memory, _other_fence)),
    ("fence of barriers", r"fence\.mbarrier_init", (_removed,)),
    ("fence of tensor memory", r"tcgen05\.fence", (_removed, _other_fence)),
    ("fence of wgmma", r"wgmma\.fence", (_removed,)),
    ("fence of memory", r"fence\.(acq_rel|sc|acquire|release)|membar", (_removed,)),
    ("barrier of the CTA", r"(bar|barrier)(\.cta)?\.(sync|arrive)", (_removed, _fewer_warps, _other_barrier, _not_waiting)),
    ("barrier of the cluster", r"barrier\.cluster\.", (_arrives_early,)),
    ("election", r"elect\.sync", (_everybody,)),
    ("election", rf"{_COPY}|mbarrier\.(arrive|init)|tcgen05\.(mma|commit|cp)", (_unguarded, _inverted)),
    ("parity", r"xor\.b32", (_kept_phase,)),
    ("swizzle", r"xor\.b32", (_pattern,)),
    ("swizzle", r"(ld|st)matrix", (_turned,)),
    ("distance", r"shl\.b32", (_distance,)),
    ("stage", r"selp\.[bsu]32", (_swapped,)),
    ("registers", r"setmaxnreg", (_registers,)),
    ("barrier of the warp", r"bar\.warp\.sync", (_removed,)),
    ("scope and order", r"(mbarrier|fence|barrier\.cluster|ld|st|atom|red)\.", (_narrower,)),
    ("atomic", r"(atom|red)\.", (_in_two_parts,)),
    ("matrix descriptor", r"tcgen05\.(mma|cp)\.|wgmma\.mma_async", (_descriptor,)),
    ("instruction descriptor", r"tcgen05\.mma\.", (_instruction_descriptor,)),
    ("instruction descriptor", r"wgmma\.mma_async", (_transposed, _negated)),
    ("accumulation", r"tcgen05\.mma\.|wgmma\.mma_async", (_accumulates,)),
    ("multicast", r"tcgen05\.commit|cp\.async\.bulk", (_mask,)),
    ("multicast", r"tcgen05\.(commit|mma|cp)|cp\.async\.bulk\.tensor", (_one_cta,)),
    ("bytes of a copy", r"cp\.async\.bulk\.(shared|global)", (_bytes,)),
    ("coordinates", r"cp\.(reduce\.)?async\.bulk\.tensor", (_coordinates,)),
    ("place of a tile", _COPY, (_tile_place,)),
    ("place of a tile", r"(ld|st)\.shared|(ld|st)matrix|cp\.async\.c[ag]", (_shifted,)),
    ("rank", r"mapa", (_other_rank,)),
    ("tensor memory", r"tcgen05\.alloc", (_half,)),
    ("tensor memory", r"tcgen05\.dealloc", (_removed, _doubled)),
    ("columns", r"tcgen05\.(ld|st)\.", (_column,)),
    ("access", rf"st\.shared|{_COPY}|cp\.async\.c[ag]|stmatrix|tcgen05\.(st|cp|mma)\.", (_removed,)),
    ("access by guard", r"(ld|st)\.(global|shared)", (_unguarded,)),
    ("bound", r"setp\.\w+\.[usb](32|64)$", (_bound,)),
    ("count", r"add\.[su]32", (_step,)),
)
