"""Operands of instructions for one class of threads: constants, special registers, values common to threads."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import filterfalse

from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.graph import Step
from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.lexical import integer
from pipec.verify.reader.text.opcodes import Kind
from pipec.verify.reader.text.operations import Operation
from pipec.verify.reader.values.surroundings import CTA_BITS, BarrierAddress, Env, Surroundings, ThreadsDiffer
from pipec.verify.reader.values.values import UNKNOWN, Lanes, Mixed, Value
from pipec.verify.terms import Both, Compare, Either, Formula, Linear, Symbol, atom


class Operands:
    """Operands for `threads` (a class of them) of the CTA of `rank`. `group`: the number of the class among all.

    `acting`: in a section of the flow, the threads in it. `inside`: by number of an instruction in a section, the threads that last
    executed it. `announcing`: by ring, the threads that arrive or announce bytes, and whether without an arrival. `lags`: by ring, how
    many uses behind its cursor the class waits: none for a consumer, all stages for a producer. `waited`: the rings for which the class
    waits, None while unknown; `waits`, `relied`: collected on the way.
    """

    def __init__(self, around: Surroundings, threads: tuple[int, ...], rank: int, name: str = "") -> None:
        self.name = name
        self.around, self.threads, self.rank = around, threads, rank
        self.group = around.numbers.setdefault((rank, threads), len(around.numbers))
        self.arithmetic = around.arithmetic
        self.warps = Counter([thread // 32 for thread in threads])
        self.partial = any(count < min(32, around.threads - 32 * warp) for warp, count in self.warps.items())
        self.acting: tuple[int, ...] | None = None
        self.inside: dict[int, tuple[int, ...]] = {}
        self.announcing: dict[int, list[tuple[frozenset[int], bool]]] = {}
        self.lags: dict[int, int] = {}
        self.waited: frozenset[int] | None = None
        self.waits: set[int] = set()
        self.relied: set[int] = set()
        # By ring: the CTAs at whose barriers the class signals it alone; `parted`: the rings for which that is more than one.
        self.signals: dict[int, set[int]] = {}
        self.parted: frozenset[int] = frozenset()
        self._rings: dict[int, set[int]] = {}
        # Barriers that were tried, by instruction and register values: the barrier, and stage + stages * parity.
        self._tried: dict[tuple[object, ...], tuple[BarrierAddress, Value]] = {}
        # By offset: arrivals, instruction, thread. Filled before the first barrier of the CTA.
        self.inits: dict[int, tuple[int, int, tuple[int, ...]]] = {}
        # Instructions that threads execute together: the number, and which threads of the class come to it.
        self.together: set[tuple[int, tuple[int, ...]]] = set()
        self.prologue = False
        self.winds = False  # whether residues of counters are known (see RESIDUE)
        # Constants are the same for all classes of a CTA.
        self._operands = around.operands.setdefault(rank, {})
        self._plans = around.plans.setdefault(rank, {})

    @property
    def present(self) -> tuple[int, ...]:
        """The threads that execute the instruction, apart from its predicate."""
        return self.threads if self.acting is None else self.acting

    def same(self, value: Value) -> Value:
        return self.arithmetic.same(value)

    # Operands.

    def value(self, text: str, env: Env) -> Value:
        found = self._operand(text)
        return env.get(text, UNKNOWN) if found[0] else found[1]  # type: ignore[return-value]

    def _operand(self, text: str) -> tuple[bool, object]:
        found = self._operands.get(text)
        if found is None:
            found = self._operands[text] = self._constant(text)
        return found

    def _constant(self, text: str) -> tuple[bool, object]:
        """Whether an operand is a register, and its value if it is not."""
        number = integer(text)
        if number is not None:
            return False, number if number < 1 << 63 else number - (1 << 64)
        if text in self.around.kernel.shared:
            return False, self.around.kernel.shared[text] | self.rank << CTA_BITS
        if text in self.around.kernel.parameters:
            return False, self.same(atom(Symbol(f"&{text}")))
        if text.startswith("%"):
            special = self._special(text[1:])
            if special is not None:
                return False, special
        elif text[:2] in ("0f", "0d", "0F", "0D"):
            return False, UNKNOWN
        return True, None

    def _special(self, name: str) -> Value | None:
        root, _, axis = name.partition(".")
        if root not in _SPECIAL:
            return None
        if f"%{root}" in self.around.kernel.widths:
            raise Unreadable(self.around.kernel.line, f"a register that hides the special one %{root} is not understood")
        place = "xyz".find(axis) if axis else -1
        block, cluster = self.around.block, self.around.cluster
        if root == "tid" and place >= 0:
            under = (1, block[0], block[0] * block[1])[place]
            return self.same(Lanes(tuple(thread // under % block[place] for thread in range(self.around.threads))))
        if root == "laneid":
            return self.same(Lanes(tuple(thread % 32 for thread in range(self.around.threads))))
        if root == "ntid" and place >= 0:
            return block[place]
        if root == "cluster_ctarank":
            return self.rank
        if root == "cluster_nctarank":
            return self.around.ranks
        if root == "cluster_nctaid" and place >= 0:
            return cluster[place]
        if root == "cluster_ctaid" and place >= 0:
            return self._within_cluster(place)
        if root == "nctaid" and place >= 0:
            exactly = self.around.interface.launch[place]
            if exactly is not None and not exactly.terms:
                return exactly.constant
        if root == "nctaid" and place >= 0:
            return self.same(self.around.interface.blocks(axis))
        if root in ("clusterid", "nclusterid") and place >= 0:
            return self.same(atom(Symbol(f"%{name}")))
        if root == "ctaid" and place >= 0:
            if self.around.ranks == 1:
                return self.same(atom(Symbol(f"%{name}")))
            form = Linear(self._within_cluster(place), ((Symbol(f"%clusterid.{axis}"), cluster[place]),))
            return self.same(form)
        return UNKNOWN if root in _VARYING else None

    def _within_cluster(self, place: int) -> int:
        x, y, _ = self.around.cluster
        return (self.rank % x, self.rank // x % y, self.rank // (x * y))[place]

    def uniform(self, value: Value, line: int) -> Value:
        """The common value of all present threads. Splits the class if they differ."""
        if not isinstance(value, (Lanes, Mixed)):
            return value
        present = self.present
        mine: set[Value] = {*map(value.entries.__getitem__, present)}
        if len(mine) == 1:
            return mine.pop()
        groups: dict[Value, list[int]] = {}
        for thread in present:
            groups.setdefault(value.entries[thread], []).append(thread)
        if len(groups) > 64:
            raise Unreadable(line, "each thread goes a way of its own")
        raise self._split(groups.values())

    def _split(self, groups: Iterable[Sequence[int]]) -> ThreadsDiffer:
        """Splits the class into those groups, and the threads that are not present."""
        rest = tuple(sorted({*self.threads} - {*self.present}))
        return ThreadsDiffer([tuple(group) for group in (*groups, rest) if group])

    def joined(self, acting: tuple[int, ...], mine: Value, others: Value) -> Value:
        """Merges a register at the join of `acting` and the other threads of the class."""
        if mine is others or mine == others:
            return mine
        columns = [value.entries if isinstance(value, Lanes) else (value,) * self.around.threads for value in (mine, others)]
        if not all(isinstance(column[0], int) for column in columns):
            return UNKNOWN
        there = {*acting}
        entries = tuple(columns[0][thread] if thread in there else columns[1][thread] for thread in range(self.around.threads))
        return self.same(Lanes(entries))  # type: ignore[arg-type]

    def divides(self, value: Value) -> bool:
        """Whether a branch on the value diverges within a warp."""
        if not isinstance(value, (Lanes, Mixed)):
            return False
        return any(len({*value.entries[32 * warp : 32 * warp + 32]}) > 1 for warp in self.warps)

    def note_uniform(self, one: Instruction, value: Value) -> None:
        """A branch of which the text says that the lanes of a warp that come to it go the same way."""
        if self.partial:
            self.together.add((one.number, self.present))
        if isinstance(value, (Lanes, Mixed)) and len({(thread // 32, value.entries[thread]) for thread in self.present}) > len(
            {thread // 32 for thread in self.present}
        ):
            raise Unreadable(one.line, f"{one.opcode} where lanes of a warp go different ways is not understood")

    def guard(self, step: Step, env: Env) -> int | Formula:
        """Whether the instruction is executed; also 1 if only some threads of the class execute it and it cannot block."""
        one = step.instruction
        if one.predicate is None:
            return 1
        value = env.get(one.predicate, UNKNOWN)
        if isinstance(value, Lanes) and step.kind in _NOBODY_WAITS:
            taking = self._taking(one, env)
            if self.partial and 0 < len(taking) < len(self.present):
                # What some lanes do also affects the lanes of other classes in their warps.
                raise self._split([taking, sorted({*self.present} - {*taking})])
            return int(bool(taking))
        value = self.uniform(value, one.line)
        if isinstance(value, int):
            return int(bool(value) != one.negated)
        if isinstance(value, (Compare, Both, Either)):
            if one.negated:
                value = self.same(self.arithmetic.apply(_NOT, [value])[0])
            return value  # type: ignore[return-value]
        raise Unreadable(one.line, "what decides whether this is executed is not understood")

    def _taking(self, one: Instruction, env: Env) -> tuple[int, ...]:
        """The threads that execute it."""
        value = env.get(one.predicate, UNKNOWN) if one.predicate else 1
        if not isinstance(value, Lanes):
            return self.present
        return tuple((filterfalse if one.negated else filter)(value.entries.__getitem__, self.present))


_NOT = Operation("not", "", 1, False, 1)
_NOBODY_WAITS = frozenset({Kind.ARRIVE, Kind.EXPECT, Kind.COPIES_ARRIVE, Kind.COMMIT, Kind.LOAD, Kind.ANSWER, Kind.COMPUTE})
_VARYING = frozenset(
    (
        *("warpid", "nwarpid", "smid", "nsmid", "gridid", "clock", "clock_hi", "clock64"),
        *("globaltimer", "globaltimer_lo", "globaltimer_hi", "is_explicit_cluster"),
        *("lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt"),
        *("dynamic_smem_size", "total_smem_size", "aggr_smem_size", "current_graph_exec"),
    )
)
_SPECIAL = _VARYING.union(
    ("tid", "laneid", "ntid", "cluster_ctarank", "cluster_nctarank", "cluster_nctaid", "cluster_ctaid", "nctaid"),
    ("clusterid", "nclusterid", "ctaid"),
)
