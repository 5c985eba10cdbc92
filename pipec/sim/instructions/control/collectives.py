"""Instructions among the lanes of a warp (PTX ISA 9.7.9.6, 9.7.13.8-11, 9.7.13.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pipec.record import record

from ...errors import SimulationError
from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...machine.threads.divergence import MERGED, Fragment, Outcome, Wait
from ...ptx.tree import Immediate
from ...ptx.types import LANE, LANES, TYPES, Addresses, LaneMask, LaneValues, Type
from ..decode import Decoder, instruction
from ..widths import Reader, Writer


def mask_bits(lanes: LaneMask) -> int:
    return int(np.packbits(lanes, bitorder="little").view(np.uint32)[0])


def mask_lanes(bits: int) -> LaneMask:
    return (bits >> LANE & 1).astype(bool)


# Computes the results, one per destination, from the participating lanes, their masks and their inputs.
Compute = Callable[..., tuple[LaneValues, ...]]


@record(eq=False)
class Collective:
    """An instruction that lanes of a warp execute together: lanes that execute one with the same qualifiers and the same mask match,
    wherever in the text it is (PTX ISA 9.7.9.6, 9.7.13.2 and 9.7.13.8-11, since sm_70).

    `readers` are its operands, `writers` its destinations (None: an unused one). `orders`: whether it orders the lanes' memory accesses,
    which PTX guarantees for `bar.warp.sync` alone. `undefined`: from the arguments of `compute`, the lanes whose first result PTX leaves
    undefined.
    """

    opcode: str
    members: Reader
    all_lanes: bool  # the mask is a constant that names all lanes
    readers: Sequence[Reader] = ()
    compute: Compute = lambda taking, masks: ()
    writers: Sequence[Writer | None] = ()
    orders: bool = False
    undefined: Callable[..., LaneMask] | None = None

    def execute(self, warp: Warp) -> Outcome:
        if not warp.fragment.full or warp.mask is not None:
            return self._apart(warp)
        # Where all lanes are here, none is missing; the mask is inspected only where it may exclude some.
        if not self.all_lanes and not warp.everybody(self.members(warp) == _EVERYBODY):
            return self._apart(warp)
        warp.meets(self.orders)
        self._write(warp, self.compute(warp.active, self.members(warp), *(read(warp) for read in self.readers)))
        return None

    def _write(self, warp: Warp, results: tuple[LaneValues, ...]) -> None:
        for write, lanes in zip(self.writers, results, strict=True):
            if write is not None:
                write(warp, lanes)

    def _apart(self, warp: Warp) -> Outcome:
        """Some lanes of the warp are elsewhere, or the lanes have different masks."""
        masks = self.members(warp)
        groups = [(mask, warp.active & (masks == mask)) for mask in np.unique(masks[warp.active]).tolist()]
        for mask, lanes in groups:
            self._check_named(warp, mask, lanes)
        if not any((_missing(warp, mask) & ~lanes).any() for mask, lanes in groups):
            inputs = [read(warp) for read in self.readers]
            for mask, lanes in groups:
                self._finish(warp, lanes, masks, inputs, [(self, lanes)])
            return None
        ((mask, lanes), *others) = groups
        if others or (lanes != warp.fragment.active).any():
            return self._part(warp, [lanes for _, lanes in groups])
        return self._meet(warp, mask)

    def _check_named(self, warp: Warp, mask: int, lanes: LaneMask) -> None:
        unnamed = lanes & ~mask_lanes(mask)
        if unnamed.any():
            message = f"{self.opcode} with mask 0x{mask:08x} is executed by lanes 0x{mask_bits(unnamed):08x}, which the mask does not name"
            error = warp.here(SimulationError("undefined", message))
            warp.cta.machine.findings.add("lanes", ("mask", warp.fragment.pc), error)

    def _part(self, warp: Warp, groups: list[LaneMask]) -> Wait:
        """Each group waits separately; lanes whose guard is false continue. They reconverge behind the instruction."""
        pc, active = warp.fragment.pc, warp.fragment.active
        rest = active & ~np.logical_or.reduce(groups)
        parts = [(pc, lanes) for lanes in groups] + ([(pc + 1, rest)] if rest.any() else [])
        warp.split(warp.fragment, parts, pc + 1)
        return MERGED

    def _meet(self, warp: Warp, mask: int) -> Wait:
        """The fragment waits for the missing lanes; where all of them wait elsewhere already, they execute together."""
        missing = _missing(warp, mask) & ~warp.fragment.active
        there: list[tuple[Fragment, Collective]] = []
        for fragment in warp.fragments:
            other = fragment.wait.collective if fragment.wait is not None and fragment.wait.members == mask else None
            if isinstance(other, Collective) and other.opcode == self.opcode:
                there.append((fragment, other))
                missing = missing & ~fragment.active
        if missing.any():
            text = f"lanes 0x{mask_bits(missing):08x} of its own warp at a warp-wide instruction"
            return warp.park(Wait("converge", text, retry=True, members=mask, collective=self))
        there.append((warp.fragment, self))
        inputs = [read(warp) for read in self.readers]
        for fragment, other in there:
            for values, read in zip(inputs, other.readers, strict=True):
                np.copyto(values, read(warp), where=fragment.active)
        union = np.logical_or.reduce([fragment.active for fragment, _ in there])
        self._finish(warp, union, np.full(LANES, mask, np.uint32), inputs, [(other, one.active) for one, other in there])
        places: dict[int, list[Fragment]] = {}
        for fragment, _ in there:
            places.setdefault(fragment.pc, []).append(fragment)
        for pc, fragments in places.items():
            merged = warp.merge(fragments)
            merged.pc, merged.wait = pc + 1, None
        return MERGED

    def _finish(
        self,
        warp: Warp,
        taking: LaneMask,
        masks: LaneValues,
        inputs: list[LaneValues],
        places: list[tuple[Collective, LaneMask]],
    ) -> None:
        """The lanes `taking` part have converged; each of the `places` writes the results of its lanes."""
        warp.meets(self.orders)
        results, saved = self.compute(taking, masks, *inputs), (warp.active, warp.mask)
        if self.undefined is not None and (lost := self.undefined(taking, masks, *inputs)).any():
            results = (self._unknown(warp, results[0], lost), *results[1:])
        for place, lanes in places:
            warp.active = warp.mask = lanes
            place._write(warp, results)
        warp.active, warp.mask = saved

    def _unknown(self, warp: Warp, values: LaneValues, lost: LaneMask) -> LaneValues:
        """The results of the lanes `lost` are undefined, like memory that has not been written (`sim.unwritten`)."""
        machine = warp.cta.machine
        message = f"{self.opcode} gives lanes 0x{mask_bits(lost):08x} the value of lanes that do not take part"
        machine.unwritten(SimulationError("uninitialised", message))
        return np.where(lost, np.uint32(machine.schedule.filling * 0x01010101), values) if machine.schedule.filling else values


_EVERYBODY = np.uint32(0xFFFFFFFF)


def _missing(warp: Warp, mask: int) -> LaneMask:
    """The lanes that must arrive: those of the mask that have not exited."""
    return mask_lanes(mask) & warp.live


def _taking(active: LaneMask, masks: LaneValues) -> LaneMask:
    """The active lanes that are members; all have the same mask."""
    found: LaneMask = active & (masks >> _LANE & np.uint32(1)).astype(bool)
    return found


_LANE = LANE.astype(np.uint32)
_BITS = np.uint32(1) << _LANE


def _collective(
    d: Decoder,
    members: int,
    readers: Sequence[Reader],
    compute: Compute,
    writers: Sequence[Writer | None],
    orders: bool = False,
    undefined: Callable[..., LaneMask] | None = None,
) -> Execute:
    """`members`: the index of the mask operand."""
    all_lanes = isinstance(d.operand(members), Immediate) and d.integer(members) & 0xFFFFFFFF == 0xFFFFFFFF
    mask = d.source(members, TYPES["b32"])
    return Collective(d.item.opcode, mask, all_lanes, readers, compute, writers, orders, undefined).execute


@instruction("bar.warp.sync")
def warp_sync(d: Decoder) -> Execute:
    return _collective(d, 0, (), lambda taking, masks: (), (), orders=True)


@instruction("elect.sync")
def elect(d: Decoder) -> Execute:
    """The lowest lane of the mask is elected (measured)."""
    leader, _ = d.pair(0)
    write, write_predicate = d.destination(leader, TYPES["b32"]), d.second_destination(0, TYPES["pred"])
    if write_predicate is None:
        d.fail("needs a predicate", "malformed")

    def compute(taking: LaneMask, masks: LaneValues) -> tuple[LaneValues, ...]:
        lane = np.bitwise_count((masks & -masks) - np.uint32(1)).astype(np.uint32)
        return lane, lane == _LANE

    return _collective(d, 1, (), compute, (write, write_predicate))


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
    read = d.source(1, TYPES["pred"])

    def compute(active: LaneMask, masks: LaneValues, values: LaneValues) -> tuple[LaneValues, ...]:
        taking = _taking(active, masks)
        yes = values & taking
        if mode == "ballot":
            return (np.broadcast_to(np.bitwise_or.reduce(np.where(yes, _BITS, np.uint32(0))), LANES),)
        some, every = np.logical_or.reduce(yes), np.logical_and.reduce(yes | ~taking)
        return (np.broadcast_to({"all": every, "any": some, "uni": every | ~some}[mode], LANES),)

    return _collective(d, 2, (read,), compute, (write,))


@instruction("match.any.sync", "match.all.sync")
def match_lanes(d: Decoder) -> Execute:
    type_ = d.type()
    every = ".all." in d.item.opcode
    first, _ = d.pair(0)
    write, read = d.destination(first, TYPES["b32"]), d.source(1, type_)
    write_predicate = d.second_destination(0, TYPES["pred"])

    def compute(active: LaneMask, masks: LaneValues, value: LaneValues) -> tuple[LaneValues, ...]:
        taking = _taking(active, masks)
        found = np.array([mask_bits(taking & (value == value[lane])) for lane in range(LANES)], np.uint32)
        same = (found[taking] == mask_bits(taking)).all()
        return np.where(same, found, np.uint32(0)).astype(np.uint32) if every else found, np.full(LANES, same)

    return _collective(d, 2, (read,), compute, (write, write_predicate))


_SHUFFLES = 64  # patterns that one instruction caches


@instruction("shfl.sync")
def shuffle(d: Decoder) -> Execute:
    mode = d.require("up", "down", "bfly", "idx")
    d.type()
    first, _ = d.pair(0)
    write, value = d.destination(first, TYPES["b32"]), d.source(1, TYPES["b32"])
    write_predicate = d.second_destination(0, TYPES["pred"])
    b, c = d.sources(2, 3, type_=TYPES["b32"])
    known: dict[tuple[bytes, bytes], tuple[Addresses, LaneMask]] = {}  # most lanes always read from the same lanes

    def undefined(active: LaneMask, masks: LaneValues, values: LaneValues, amounts: LaneValues, limits: LaneValues) -> LaneMask:
        """Lanes that read from a lane that does not execute this instruction, or that the mask excludes (PTX ISA 9.7.9.6)."""
        source, inside = _shuffle_sources(mode, amounts.astype(np.int64) & 31, limits.astype(np.int64))
        lost: LaneMask = active & inside & ~(active[source] & (masks >> source.astype(np.uint32) & np.uint32(1)).astype(bool))
        return lost

    def compute(
        active: LaneMask, masks: LaneValues, values: LaneValues, amounts: LaneValues, limits: LaneValues
    ) -> tuple[LaneValues, ...]:
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
        return values[source], inside

    return _collective(d, 4, (value, b, c), compute, (write, write_predicate), undefined=undefined)


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
    write, read = d.destination(0, type_), d.source(1, type_)

    def compute(active: LaneMask, masks: LaneValues, values: LaneValues) -> tuple[LaneValues, ...]:
        taken = np.where(_taking(active, masks), values, neutral)
        return (np.broadcast_to(function.reduce(taken, dtype=type_.dtype), LANES),)

    return _collective(d, 2, (read,), compute, (write,))


def _neutral(name: str, type_: Type) -> LaneValues:
    """The neutral element of a reduction."""
    if name in ("min", "max"):
        limits = np.iinfo(type_.dtype)
        return np.array(limits.max if name == "min" else limits.min, type_.dtype)
    return np.array(-1 if name == "and" else 0).astype(type_.dtype)


_NAN = np.int32(0x7FFFFFFF)


def _reduce_floats(d: Decoder, name: str, type_: Type, absolute: bool, keep_nan: bool) -> Execute:
    """redux.sync.{min,max}{.abs}{.NaN}.f32 (sm_100a): a NaN loses against a number unless .NaN; -0 is less than +0."""
    if name not in ("min", "max"):
        d.fail("floating-point numbers are reduced by min and max only", "malformed")
    write, read = d.destination(0, type_), d.source(1, type_)
    function = _REDUCTIONS[name]
    neutral = _NAN if name == "min" else np.int32(-(1 << 31))

    def compute(active: LaneMask, masks: LaneValues, values: LaneValues) -> tuple[LaneValues, ...]:
        taking = _taking(active, masks)
        if absolute:
            values = np.abs(values)
        numbers = taking & ~np.isnan(values)
        # As integers, with the bits of negative values inverted, they are in order.
        bits = values.view(np.int32)
        keys = np.where(bits < 0, bits ^ _NAN, bits)
        best = function.reduce(np.where(numbers, keys, neutral))
        bits = np.where(best < 0, best ^ _NAN, best)
        known = np.logical_and.reduce(numbers | ~taking) if keep_nan else np.logical_or.reduce(numbers)
        return (np.broadcast_to(np.where(known, bits, _NAN), LANES).view(np.float32),)

    return _collective(d, 2, (read,), compute, (write,))
