"""The actions of a class of threads at an instruction with events."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection

from pipec.record import replace
from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.graph import Step
from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.opcodes import Kind
from pipec.verify.reader.text.operations import Operation
from pipec.verify.reader.text.statements import address
from pipec.verify.reader.values.registers import Registers
from pipec.verify.reader.values.surroundings import (
    ANY_SLOT,
    CTA_BITS,
    GIVEN_UP,
    HELD,
    MET,
    OFFSET,
    READY,
    BarrierAddress,
    Env,
    Freed,
    RingAction,
    Synchronised,
    held_in,
)
from pipec.verify.reader.values.values import Remote, Table, Value
from pipec.verify.terms import Linear, Symbol


class Events(Registers):
    """Converts instructions of a class of threads to actions of the network."""

    def publishes(self, act: RingAction) -> int:
        """Whether all threads of the CTA synchronise here (1), or all of the cluster (2)."""
        if act.ring == ("cluster",):
            return 2
        return int(isinstance(act.ring, tuple) and act.ring[0] == "named" and act.ring[2] >= self.around.threads)

    def acts(self, step: Step, env: Env) -> list[RingAction]:
        """The protocol actions of the instruction, in order."""
        rule = _EVENTS.get(step.kind)
        if rule is None:
            raise Unreadable(step.instruction.line, f"{step.instruction.opcode} is not understood")
        if self.acting is not None:
            self.inside[step.instruction.number] = self.acting
        return rule(self, step, env)

    def number(self, one: Instruction, text: str, env: Env, what: str) -> int:
        value = self.uniform(self.value(text, env), one.line)
        if not isinstance(value, int):
            raise Unreadable(one.line, f"{what} is not a constant")
        return value

    def _init(self, step: Step, env: Env) -> list[RingAction]:
        one = step.instruction
        name, offset = address(one.operands[0], one.line)
        where = self.number(one, name, env, "the address of the barrier") + offset if name else offset
        count = self.number(one, one.operands[1], env, "the number of arrivals")
        taking = self._taking(one, env)
        if len(taking) != 1 or where >> CTA_BITS != self.rank:
            raise Unreadable(one.line, "a barrier is made ready by one thread of its CTA")
        shared, sizes = self.around.kernel.shared, self.around.kernel.bytes
        around = [variable for variable, place in shared.items() if place <= where & OFFSET <= place + sizes[variable] - 8]
        if not around:
            # Nobody knows what else lies there: it may be another barrier, in a variable.
            raise Unreadable(one.line, "a barrier that lies in no variable in shared memory is not understood")
        if any(self.around.kernel.alignments[variable] % 8 for variable in around):
            raise Unreadable(
                one.line, f"a barrier in a variable that may lie where no barrier can is not understood: {around[0][:40]}"
            )
        before, mine = env.get(READY, 0), 1 << ((where & OFFSET) // 8)
        assert isinstance(before, int)
        if before & mine:
            raise Unreadable(one.line, "a barrier that is made ready twice is not understood")
        env[READY] = before | mine
        row = (count, one.number, taking)
        if self.inits.setdefault(where & OFFSET, row) != row or not 0 < count < 1 << 20 or where % 8:
            raise Unreadable(one.line, "a barrier is made ready once, for at least one arrival")
        return []

    def _give_up(self, step: Step, env: Env) -> list[RingAction]:
        one = step.instruction
        spot, taking = self._spot(one, one.operands[0], env), tuple(self._taking(one, env))
        if not isinstance(spot.stage, int) or spot.rank != self.rank or len(taking) != 1:
            raise Unreadable(one.line, "a barrier is given up by one thread of its CTA")
        before, mine = env.get(GIVEN_UP, 0), 1 << sum(self.around.barriers.stages[: spot.ring]) + spot.stage
        assert isinstance(before, int)
        row = (one.number, taking)
        if before & mine or self.around.given_up.setdefault((spot.rank, spot.ring, spot.stage), row) != row:
            raise Unreadable(one.line, "a barrier that is given up twice is not understood")
        env[GIVEN_UP] = before | mine
        return []

    def _try(self, step: Step, env: Env) -> list[RingAction]:
        if step.spin:
            return [self._wait(step.instruction, env)]
        return [self.looked_at(step.instruction, env)] if step.defines else []

    def _arrive(self, step: Step, env: Env) -> list[RingAction]:
        one = step.instruction
        if "noComplete" in one.parts:
            raise Unreadable(one.line, f"{one.opcode} is not understood")
        at = next((number for number, text in enumerate(one.operands) if text.startswith("[")), None)
        if at is None:
            raise Unreadable(one.line, "the arrival has no barrier")
        amount = self.number(one, one.operands[at + 1], env, "the number of arrivals") if at + 1 < len(one.operands) else None
        # (Announcing no bytes is legal, an arrival with count 0 is not.)
        if amount is not None and not int("expect_tx" not in one.parts) <= amount < 1 << 20:
            raise Unreadable(one.line, f"{amount} arrivals or bytes are not what a barrier counts")
        taking = self._taking(one, env)
        threads = len(taking)
        base = self.value(address(one.operands[at], one.line)[0], env)
        if isinstance(base, Remote):
            return [self._arrive_remote(one, one.operands[at], base, amount, env)]
        expects = "expect_tx" in one.parts
        count = 0 if one.parts[1] == "expect_tx" else threads * (1 if expects or amount is None else amount)
        announced = threads * (amount or 0) if expects else 0
        use = self._use(one, self._spot(one, one.operands[at], env), env, count, announces=announced if expects else None)
        self._tells(one, use, taking, arrives=count > 0, announces=announced > 0)
        return [replace(use, count=count, expects=announced, part=self._part(taking, env))]

    def _tells(
        self, one: Instruction, use: RingAction, taking: Collection[int], *, arrives: bool = True, announces: bool = False
    ) -> None:
        """Bytes that some threads of a class announce without arriving with them: the same threads must arrive, since the network
        distinguishes threads of a class only by their number."""
        assert isinstance(use.ring, int)
        mine = frozenset(taking)
        rows = self.announcing.setdefault(use.ring, [])
        row = (mine, announces and not arrives)
        if row not in rows:
            rows.append(row)
        if any(alone and not announced <= others for announced, alone in rows for others, only in rows if not only):
            raise Unreadable(one.line, "bytes are announced by other threads than arrive")

    def _arrive_remote(self, one: Instruction, where: str, base: Remote, amount: int | None, env: Env) -> RingAction:
        """Arrivals at barriers selected per thread."""
        spot = self._spot(one, where, {**env, address(where, one.line)[0]: base.address})
        taking = self._taking(one, env)
        warps = {thread // 32 for thread in taking}
        if self.partial and len(warps) > 1:
            # A class of partial warps may become several processes, and which thread reaches which CTA is not recorded per warp.
            raise self._split([[thread for thread in taking if thread // 32 == warp] for warp in sorted(warps)])
        reached = Counter(base.ranks[thread] for thread in taking)
        if not all(0 <= rank < self.around.ranks for rank in reached) or "expect_tx" in one.parts:
            raise Unreadable(one.line, "the CTA whose barrier is meant is not understood")
        for rank in reached:
            self._in_space(one, rank)
        count = 1 if amount is None else amount
        use = self._use(one, spot, env, count, several=True)
        self._tells(one, use, taking)
        return replace(use, count=count, targets=tuple(sorted(reached.items())), part=self._part(taking, env))

    def _copies(self, step: Step, env: Env) -> list[RingAction]:
        one = step.instruction
        taking = self._taking(one, env)
        count = len(taking)
        use = self._use(one, self._spot(one, one.operands[0], env), env, count)
        self._tells(one, use, taking)
        return [replace(use, count=count, part=self._part(taking, env))]

    def _commit(self, step: Step, env: Env) -> list[RingAction]:
        one = step.instruction
        taking = self._taking(one, env)
        count = len(taking)
        use = self._signal(one, one.operands[0], one.operands[1:2], env, count)
        self._tells(one, use, taking)
        return [replace(use, count=count, part=self._part(taking, env))]

    def _signal(
        self, one: Instruction, where: str, mask: tuple[str, ...], env: Env, arrivals: int, copied: int = 0
    ) -> RingAction:
        """The use of a barrier in each CTA that a multicast reaches. For a CTA pair the address determines which of the two has the
        barrier (PTX ISA, cp.async.bulk.tensor)."""
        spot = self._spot(one, where, env)
        use = self._use(one, spot, env, arrivals, copied=copied, several="multicast::cluster" in one.parts)
        if "multicast::cluster" not in one.parts:
            return use
        if not mask:
            raise Unreadable(one.line, "a multicast without a mask")
        ranks = self.number(one, mask[0], env, "the mask of the multicast") & 0xFFFF
        if not ranks or ranks >> self.around.ranks:
            raise Unreadable(one.line, "the multicast reaches CTAs that the cluster does not have")
        reached: dict[int, int] = {}
        for rank in range(self.around.ranks):
            if ranks >> rank & 1:
                holder = rank & ~1 | spot.rank & 1 if _PAIR in one.parts and one.parts[0] == "cp" else rank
                reached[holder] = reached.get(holder, 0) + 1
        return replace(use, targets=tuple(reached.items()))

    def _load(self, step: Step, env: Env) -> list[RingAction]:
        one = step.instruction
        tensor, stored = "tensor" in one.parts, one.parts[0] in ("st", "red")
        at = 2 if tensor or stored else 3
        if len(one.operands) <= at:
            raise Unreadable(one.line, "the copy has no barrier")
        size = self._box(one, env) if tensor else _stored(one) if stored else self.number(one, one.operands[2], env, _SIZE)
        if size % (4 if stored else 16) or not 0 <= size < 1 << 20:
            raise Unreadable(one.line, f"a copy of {size} bytes is not what a barrier counts")
        self.around.sizes[one.number] = max(size, self.around.sizes.get(one.number, 0))
        after = tuple(text for text in one.operands[at + 1 :] if not text.startswith("{"))
        taking = self._taking(one, env)
        use = self._signal(one, one.operands[at], after[:1], env, 0, size * len(taking))
        if "shared::cluster" in one.parts and _PAIR in one.parts:
            self._note_spread(one, after[:1], env)
        elif "shared::cluster" in one.parts and "multicast::cluster" not in one.parts:
            self._own(one, one.operands[0], use, size, env)
        return [replace(use, delivers=size * len(taking), part=self._part(taking, env))]

    def _note_spread(self, one: Instruction, mask: tuple[str, ...], env: Env) -> None:
        """A pair's copy may go to a CTA that does not have its barrier."""
        name, _ = address(one.operands[0], one.line)
        value = self.uniform(self.value(name, env), one.line) if name else 0
        entries = value.entries if isinstance(value, Table) else (value,)
        mine = all(entry is None or isinstance(entry, int) and entry >> CTA_BITS == self.rank for entry in entries)
        reached = self.number(one, mask[0], env, "the mask of the multicast") if "multicast::cluster" in one.parts else 0
        if not mine or any(reached >> rank & 1 and rank % 2 for rank in range(self.around.ranks) if rank != self.rank):
            self.around.spread.add(one.line)

    def _own(self, one: Instruction, where: str, use: RingAction, size: int, env: Env) -> None:
        """Without a pair, the barrier is in the CTA that receives the data, which hits none."""
        name, offset = address(where, one.line)
        value = self.uniform(self.value(name, env), one.line) if name else 0
        entries = value.entries if isinstance(value, Table) else (value,)
        ranks = {entry + offset >> CTA_BITS if isinstance(entry, int) else None for entry in entries if entry is not None}
        if ranks != {use.targets[0][0]}:
            raise Unreadable(one.line, "which CTA gets the data is not understood")
        places = self.around.barriers.ordered
        for entry in entries:
            if isinstance(entry, int):
                first = entry + offset & OFFSET
                self.around.copied[first, one.number] = size
                behind = bisect_right(places, first - 8)
                if behind < len(places) and places[behind] < first + size:
                    raise Unreadable(one.line, "a copy to the place of a barrier is not understood")

    def _box(self, one: Instruction, env: Env) -> int:
        name = address(one.operands[1].partition(",")[0].rstrip("] ") + "]", one.line)[0]
        value = self.value(name, env)
        if isinstance(value, Linear) and len(value.terms) == 1 and not value.constant:
            symbol = value.terms[0][0]
            box = self.around.interface.boxes.get(symbol.name.removeprefix("&")) if isinstance(symbol, Symbol) else None
            # (Through a map of other axes a copy is not defined.)
            known = box is not None and f"{box[0]}d" in one.parts
            if box is not None and known and not any(part.startswith(("im2col", "tile::")) for part in one.parts):
                return box[1]
        raise Unreadable(one.line, "the number of bytes that the copy brings is not known")

    def _answer(self, step: Step, env: Env) -> list[RingAction]:
        one = step.instruction
        spot = self._spot(one, one.operands[1], env)
        taking = self._taking(one, env)
        use = self._use(one, spot, env, 0, copied=16 * len(taking))
        self._note_answer(one, spot, env)
        if "multicast::cluster::all" in one.parts:
            use = replace(use, targets=tuple((rank, 1) for rank in range(self.around.ranks)))
        return [replace(use, delivers=16 * len(taking), part=self._part(taking, env), asks=True)]

    def _note_answer(self, one: Instruction, spot: BarrierAddress, env: Env) -> None:
        name, offset = address(one.operands[0], one.line)
        value = self.uniform(self.value(name, env), one.line) if name else 0
        pairs: list[tuple[object, object]] = [(value, spot.stage)]
        if isinstance(value, Table) and isinstance(spot.stage, tuple) and value.cursor == spot.cursor:
            pairs = list(zip(value.entries, spot.stage, strict=True))
        same = self.around.ranks == 1 or "multicast::cluster::all" in one.parts
        for where, stage in pairs:
            if isinstance(where, int) and isinstance(stage, int):
                row = (spot.ring, stage, same)
                if self.around.answers.setdefault(where + offset & OFFSET, row) != row:
                    raise Unreadable(one.line, "answers of the scheduler for different stages go to one place")
            elif where is not None:
                raise Unreadable(one.line, "where the answer of the scheduler goes is not understood")

    def _sync(self, step: Step, env: Env) -> list[RingAction]:
        one = step.instruction
        operands = one.operands[1:-1] if step.kind is Kind.VOTE else one.operands  # between the result and the vote
        name = self.number(one, operands[0], env, "the number of the barrier")
        everybody = -(-self.around.threads // 32) * 32
        count = self.number(one, operands[1], env, "the number of threads") if len(operands) > 1 else everybody
        if not 0 <= name < 16 or count <= 0 or count % 32:
            raise Unreadable(one.line, f"there is no barrier {name} for {count} threads")
        if len(operands) > 1:
            self.around.counted.add(name)
        ring = ("named", name, count)
        # The last warp counts as a whole one, even if the CTA has fewer threads.
        missing = everybody - self.around.threads if self.threads[-1] == self.around.threads - 1 else 0
        coming = len(self.threads) + missing
        if coming > count:
            raise Unreadable(one.line, f"which {count} of {coming} threads meet at barrier {name} is not understood")
        arrival = RingAction(False, ring, ("named", name), 0, count=coming)
        # A named barrier counts whole warps, however many lanes arrive: these must be converged.
        meeting = self._met_at(one)
        if step.kind is Kind.SIGN:
            return [*meeting, replace(arrival, advance=1)]
        return [*meeting, arrival, RingAction(True, ring, ("named", name), 0, 1)]

    def _cluster_arrive(self, step: Step, env: Env) -> list[RingAction]:
        return [*self._aligned(step), RingAction(False, ("cluster",), ("cluster",), 0, count=len(self.threads))]

    def _cluster_wait(self, step: Step, env: Env) -> list[RingAction]:
        return [*self._aligned(step), RingAction(True, ("cluster",), ("cluster",), 0, 1)]

    def _aligned(self, step: Step) -> list[RingAction]:
        """Lanes may come to the barrier of a cluster one by one, but for an `.aligned` instruction."""
        return self._met_at(step.instruction) if "aligned" in step.instruction.parts else []

    def _meet(self, step: Step, env: Env) -> list[RingAction]:
        if step.instruction.head in _MASKED:
            self._whole_warp(step.instruction, env)
        self._note_together(step.instruction)
        return self._met_at(step.instruction)

    def passes(self, one: Instruction) -> bool:
        """Whether a synchronisation of whole warps is trivial for the class: almost always."""
        if one.predicate is None:
            self._note_together(one)
        return not self.partial and one.predicate is None and one.head not in _MASKED

    def _note_together(self, one: Instruction) -> None:
        if one.head in _TOGETHER or one.parts[1:2] == _PERMIT:
            self.together.add((one.number, self.present))

    def _met_at(self, one: Instruction) -> list[RingAction]:
        """The lanes of each warp reconverge: there is nothing to wait for if the class has all of them. An `.aligned` instruction or a
        named barrier must be the same one for all lanes; others may be different instructions of the same kind: a lane at `shfl` does
        not synchronise with one at `elect`."""
        if not self.partial:
            return []
        where: tuple[object, ...] = ("warp",)
        if one.parts[:2] != ("bar", "warp"):
            where = ("warp", one.number if "aligned" in one.parts or one.head in ("bar", "barrier") else one.opcode)
        return [RingAction(False, where, where, 0, count=len(self.threads)), RingAction(True, where, where, 0, 1)]

    def _allocate(self, step: Step, env: Env) -> list[RingAction]:
        one = step.instruction
        columns = self.number(one, one.operands[1], env, "the number of columns")
        if not (32 <= columns <= 512 and columns & columns - 1 == 0):
            raise Unreadable(one.line, f"{columns} columns of tensor memory cannot be asked for")
        taking = self._taking(one, env)
        if step.kind is Kind.ALLOCATE:
            # Each warp that executes it allocates that many.
            name, offset = address(one.operands[0], one.line)
            slot = self.number(one, name, env, "the place of the address") + offset if name else offset
            asked = {(one.number, thread // 32): columns for thread in taking}
            self.around.columns.setdefault(self.rank, {}).update(asked)
            self.around.slots.setdefault(slot, {}).update(dict.fromkeys(asked))
        else:
            freed = self._freed(one, columns, taking, env)
            self.around.freed.add(freed)
            slot = freed.slot
        # In lanes, since those of a warp may be in several classes.
        held, more = held_in(env), columns * len(taking)
        held[slot] = held.get(slot, 0) + (more if step.kind is Kind.ALLOCATE else -more)
        env[HELD] = tuple(sorted(row for row in held.items() if row[1]))  # type: ignore[assignment]
        return self._meet(step, env)

    def _freed(self, one: Instruction, columns: int, taking: tuple[int, ...], env: Env) -> Freed:
        """Its address was loaded from where an allocation puts it."""
        found = self.uniform(self.value(one.operands[0], env), one.line)
        if found == 0:
            return Freed(one.number, self.rank, ANY_SLOT, columns, taking, one.number, bool(held_in(env)))
        rows = self.around.read_at.get(found, ())
        if len(rows) != 1 and self.acting is not None:
            # They may have loaded it where others of the class did not.
            raise self._split([self.present])
        if len(rows) != 1:
            raise Unreadable(one.line, "which tensor memory is given back is not understood")
        ((slot, read, held),) = rows
        return Freed(one.number, self.rank, slot, columns, taking, read, held)

    def _observe(self, step: Step, env: Env) -> list[RingAction]:
        """A loop that polls memory for a number."""
        one = step.instruction
        return [RingAction(True, ("poll", self._where(one, one.operands[1], env), self.value(step.until, env)), ("poll",), 0)]

    def _publish(self, step: Step, env: Env) -> list[RingAction]:
        one = step.instruction
        return [
            RingAction(False, ("pass", self._where(one, one.operands[0], env), self.value(one.operands[1], env)), ("pass",), 0)
        ]

    def _where(self, one: Instruction, text: str, env: Env) -> Value:
        name, offset = address(text, one.line)
        return self.arithmetic.apply(_ADD_WIDE, [self.value(name, env), offset])[0] if name else offset

    def met(self, act: RingAction) -> int:
        """After a wait: which threads of the class are known to be at the same point."""
        return Synchronised.ALL if isinstance(act.ring, tuple) and act.ring[0] == "named" else Synchronised.NONE

    def _part(self, taking: Collection[int], env: Env) -> bool:
        """Whether those threads may be unaware of what others of the class have waited for."""
        match env.get(MET, Synchronised.NONE):
            case Synchronised.ALL:
                return not taking
            case Synchronised.LANES:
                return {thread // 32 for thread in taking} != self.warps.keys()
            case _:
                return len(taking) < len(self.threads)


def _stored(one: Instruction) -> int:
    """The bytes of a `st.async` or `red.async`: of a value, or of a vector."""
    number = next((int(part[1]) for part in one.parts if part in ("v2", "v4")), 1)
    kind, width = one.parts[-1][:1], one.parts[-1][1:]
    if kind not in ("b", "u", "s", "f") or not width.isdigit():
        raise Unreadable(one.line, f"{one.opcode} is not understood")
    return number * int(width) // 8


_SIZE = "the size of the copy"
_MASKED = frozenset({"bar", "shfl", "elect", "vote", "match", "redux"})  # instructions with a mask of lanes that synchronise
_TOGETHER = frozenset({"wgmma", "setmaxnreg"})
_PERMIT = ("relinquish_alloc_permit",)
_ADD_WIDE = Operation("add", "", 64, True, 64)
_PAIR = "cta_group::2"
_EVENTS: dict[Kind, Callable[[Events, Step, Env], list[RingAction]]] = {
    Kind.INIT: Events._init,
    Kind.GIVE_UP: Events._give_up,
    Kind.TRY: Events._try,
    Kind.ARRIVE: Events._arrive,
    Kind.EXPECT: Events._arrive,
    Kind.COPIES_ARRIVE: Events._copies,
    Kind.COMMIT: Events._commit,
    Kind.LOAD: Events._load,
    Kind.ANSWER: Events._answer,
    Kind.SYNC: Events._sync,
    Kind.VOTE: Events._sync,
    Kind.SIGN: Events._sync,
    Kind.CLUSTER_ARRIVE: Events._cluster_arrive,
    Kind.CLUSTER_WAIT: Events._cluster_wait,
    Kind.MEET: Events._meet,
    Kind.MEET_COMPUTE: Events._meet,
    Kind.MORE_REGISTERS: Events._meet,
    Kind.ALLOCATE: Events._allocate,
    Kind.FREE: Events._allocate,
    Kind.OBSERVE: Events._observe,
    Kind.PUBLISH: Events._publish,
}
