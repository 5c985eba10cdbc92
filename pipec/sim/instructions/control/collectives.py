"""Instructions among the lanes of a warp (PTX ISA 9.7.9.6, 9.7.13.8-11, 9.7.13.4)."""

from __future__ import annotations

import numpy as np

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...machine.threads.divergence import Fragment, Outcome, Wait
from ...ptx.types import LANE, LANES, TYPES, Addresses, LaneMask, LaneValues, Type
from ..decode import Decoder, instruction
from ..widths import Reader


def mask_bits(lanes: LaneMask) -> int:
    return int(np.packbits(lanes, bitorder="little").view(np.uint32)[0])


def mask_lanes(bits: int) -> LaneMask:
    return (bits >> LANE & 1).astype(bool)


def gather_members(warp: Warp, member_mask: int) -> Wait | None:
    """Waits until all live lanes of the mask stand at this instruction; merges them. None: go ahead."""
    wanted = mask_lanes(member_mask) & warp.live
    fragment = warp.fragment
    if not (wanted & ~fragment.active).any():
        return None
    peers = [
        other
        for other in warp.fragments
        if other is not fragment and other.wait is not None and other.wait.kind == "converge" and other.pc == fragment.pc
    ]
    together = np.logical_or.reduce([fragment.active, *(other.active for other in peers)])
    if (wanted & ~together).any():
        missing = mask_bits(wanted & ~together)
        return warp.park(Wait("converge", f"lanes 0x{missing:08x} of its own warp at a warp-wide instruction", retry=True))
    warp.merge([fragment, *peers])
    # The merged fragment executes the instruction anew; this one is gone.
    return Wait("merged", "", retry=True)


def _members(d: Decoder, index: int) -> Reader:
    return d.source(index, TYPES["b32"])


def _taking(warp: Warp, members: Reader) -> LaneMask:
    """The active lanes that are members: all active lanes have the same mask."""
    found: LaneMask = warp.active & (members(warp) >> _LANE & np.uint32(1)).astype(bool)
    return found


_LANE = LANE.astype(np.uint32)
_BITS = np.uint32(1) << _LANE


def collective(members: Reader, action: Execute) -> Execute:
    """`action(warp)` once the lanes of the mask have converged. PTX does not promise that what they did in memory is in order then,
    though the lanes meet all the same."""

    def execute(warp: Warp) -> Outcome:
        if not warp.fragment.full:
            # Where all lanes are here, nobody is missing.
            wait = gather_members(warp, int(members(warp)[warp.active][0]))
            if wait is not None:
                return wait
        warp.meets(False)
        return action(warp)

    return execute


@instruction("bar.warp.sync")
def warp_sync(d: Decoder) -> Execute:
    """Lanes that have parted meet at any of them that has the same mask (PTX ISA 9.7.13.2: since sm_70)."""
    members = _members(d, 0)

    def execute(warp: Warp) -> Wait | None:
        if not warp.fragment.full:
            mask = int(members(warp)[warp.active][0])
            missing = mask_lanes(mask) & warp.live & ~warp.fragment.active
            if missing.any():
                return _meet(warp, mask, missing)
        warp.meets(True)
        return None

    return execute


def _meet(warp: Warp, mask: int, missing: LaneMask) -> Wait:
    """The fragment waits for the lanes that are `missing`; where all wait elsewhere already, they go on together."""
    there = [one for one in warp.fragments if one.wait is not None and one.wait.members == mask]
    for other in there:
        missing = missing & ~other.active
    if missing.any():
        text = f"lanes 0x{mask_bits(missing):08x} of its own warp at a warp-wide instruction"
        return warp.park(Wait("converge", text, retry=True, members=mask))
    warp.meets(True)
    places: dict[int, list[Fragment]] = {}
    for one in (warp.fragment, *there):
        places.setdefault(one.pc, []).append(one)
    for pc, fragments in places.items():
        merged = warp.merge(fragments)
        merged.pc, merged.wait = pc + 1, None
    return Wait("merged", "", retry=True)


@instruction("elect.sync")
def elect(d: Decoder) -> Execute:
    """The lowest lane of the mask leads (measured)."""
    leader, _ = d.pair(0)
    write, write_predicate = d.destination(leader, TYPES["b32"]), d.second_destination(0, TYPES["pred"])
    if write_predicate is None:
        d.fail("needs a predicate", "malformed")
    members = _members(d, 1)

    def action(warp: Warp) -> None:
        mask = members(warp)
        lane = np.bitwise_count((mask & -mask) - np.uint32(1)).astype(np.uint32)
        write(warp, lane)
        write_predicate(warp, lane == _LANE)

    return collective(members, action)


@instruction("activemask")
def active_mask(d: Decoder) -> Execute:
    d.type()
    write = d.destination(0, TYPES["b32"])
    return lambda warp: write(warp, np.full(LANES, mask_bits(warp.active), np.uint32))


@instruction("vote.sync")
def vote(d: Decoder) -> Execute:
    mode = d.require("all", "any", "uni", "ballot")
    d.type()
    write = d.destination(0, TYPES["b32" if mode == "ballot" else "pred"])
    read, members = d.source(1, TYPES["pred"]), _members(d, 2)

    def action(warp: Warp) -> None:
        taking = _taking(warp, members)
        yes = read(warp) & taking
        if mode == "ballot":
            return write(warp, np.broadcast_to(np.bitwise_or.reduce(np.where(yes, _BITS, np.uint32(0))), LANES))
        some, every = np.logical_or.reduce(yes), np.logical_and.reduce(yes | ~taking)
        return write(warp, np.broadcast_to({"all": every, "any": some, "uni": every | ~some}[mode], LANES))

    return collective(members, action)


@instruction("match.any.sync", "match.all.sync")
def match_lanes(d: Decoder) -> Execute:
    type_ = d.type()
    every = ".all." in d.item.opcode
    first, _ = d.pair(0)
    write, read, members = d.destination(first, TYPES["b32"]), d.source(1, type_), _members(d, 2)
    write_predicate = d.second_destination(0, TYPES["pred"])

    def action(warp: Warp) -> None:
        taking, value = warp.active & mask_lanes(int(members(warp)[warp.active][0])), read(warp)
        masks = np.array([mask_bits(taking & (value == value[lane])) for lane in range(LANES)], np.uint32)
        if every:
            same = (masks[taking] == mask_bits(taking)).all()
            masks = np.where(same, masks, np.uint32(0)).astype(np.uint32)
            if write_predicate:
                write_predicate(warp, np.full(LANES, same))
        write(warp, masks)

    return collective(members, action)


_SHUFFLES = 64  # patterns that one instruction remembers


@instruction("shfl.sync")
def shuffle(d: Decoder) -> Execute:
    mode = d.require("up", "down", "bfly", "idx")
    d.type()
    first, _ = d.pair(0)
    write, value = d.destination(first, TYPES["b32"]), d.source(1, TYPES["b32"])
    write_predicate = d.second_destination(0, TYPES["pred"])
    b, c, members = d.sources(2, 3, 4, type_=TYPES["b32"])
    known: dict[tuple[bytes, bytes], tuple[Addresses, LaneMask]] = {}  # most lanes always read from the same ones

    def action(warp: Warp) -> None:
        amounts, limits = b(warp), c(warp)
        key = (amounts.tobytes(), limits.tobytes()) if isinstance(amounts, np.ndarray) else None
        found = known.get(key) if key is not None else None
        if found is None:
            lanes, inside = _shuffle_sources(mode, amounts.astype(np.int64) & 31, limits.astype(np.int64))
            found = np.where(inside, lanes, LANE), inside
            if len(known) >= _SHUFFLES:
                known.clear()
            if key is not None:
                known[key] = found
        source, inside = found
        write(warp, value(warp)[source])
        if write_predicate:
            write_predicate(warp, inside)

    return collective(members, action)


def _shuffle_sources(mode: str, b: Addresses, c: Addresses) -> tuple[Addresses, LaneMask]:
    """Source lane and whether it lies in range (PTX ISA shfl.sync, pseudo code)."""
    segment, clamp = c >> 8 & 31, c & 31
    highest = (LANE & segment) | (clamp & ~segment)
    lowest = LANE & segment
    lanes = {"up": LANE - b, "down": LANE + b, "bfly": LANE ^ b, "idx": lowest | (b & ~segment)}[mode]
    inside = lanes >= highest if mode == "up" else lanes <= highest
    return lanes & 31, inside


_REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@instruction("redux.sync")
def reduce_lanes(d: Decoder) -> Execute:
    name = d.require(*_REDUCTIONS)
    keep_nan, absolute = d.flag("NaN"), d.flag("abs")
    type_ = d.type()
    if type_.meaning == "f":
        return _reduce_floats(d, name, type_, absolute, keep_nan)
    function, neutral = _REDUCTIONS[name], _neutral(name, type_)
    write, read, members = d.destination(0, type_), d.source(1, type_), _members(d, 2)

    def action(warp: Warp) -> None:
        values = np.where(_taking(warp, members), read(warp), neutral)
        write(warp, np.broadcast_to(function.reduce(values, dtype=type_.dtype), LANES))

    return collective(members, action)


def _neutral(name: str, type_: Type) -> LaneValues:
    """What changes no reduction."""
    if name in ("min", "max"):
        limits = np.iinfo(type_.dtype)
        return np.array(limits.max if name == "min" else limits.min, type_.dtype)
    return np.array(-1 if name == "and" else 0).astype(type_.dtype)


_NAN = np.int32(0x7FFFFFFF)


def _reduce_floats(d: Decoder, name: str, type_: Type, absolute: bool, keep_nan: bool) -> Execute:
    """redux.sync.{min,max}{.abs}{.NaN}.f32 (sm_100a): a NaN loses against a number unless .NaN; -0 is less than +0."""
    if name not in ("min", "max"):
        d.fail("floating-point numbers are reduced by min and max only", "malformed")
    write, read, members = d.destination(0, type_), d.source(1, type_), _members(d, 2)

    function = _REDUCTIONS[name]
    neutral = _NAN if name == "min" else np.int32(-(1 << 31))

    def action(warp: Warp) -> None:
        values, taking = read(warp), _taking(warp, members)
        if absolute:
            values = np.abs(values)
        numbers = taking & ~np.isnan(values)
        # As whole numbers, with the bits of the negative ones turned, they are in order.
        bits = values.view(np.int32)
        keys = np.where(bits < 0, bits ^ _NAN, bits)
        best = function.reduce(np.where(numbers, keys, neutral))
        bits = np.where(best < 0, best ^ _NAN, best)
        known = np.logical_and.reduce(numbers | ~taking) if keep_nan else np.logical_or.reduce(numbers)
        write(warp, np.broadcast_to(np.where(known, bits, _NAN), LANES).view(np.float32))

    return collective(members, action)
