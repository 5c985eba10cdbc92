"""The position of a role on a ring: the next stage, and the phase parity to wait for there."""

from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import Value, integer
from pipec.lower.emit.variables import Slot
from pipec.record import record
from pipec.vocabulary import Side

# The producer's first waits are for the phase preceding a fresh barrier's first one, which counts as complete (hardware.md 1.1).
_FIRST_PHASE: dict[Side, int] = {"producer": 1, "consumer": 0}
_TOP = 31  # the highest bit of a word


@record
class Cursor:
    """A ring of 2 ** n stages, n > 1, keeps the stage in the top n bits of one word, and the phase above a copy of it in another. Both
    wrap around by themselves, and their lower bits are 0: an address is a shift and an addition, one instruction. With two stages the
    stage flips, and when it returns to 0 the phase flips as well. Other rings keep both as numbers. If `biased`, the stage is kept with a
    number added to it, so that the one behind the last is a power of two: its bit, shifted down, flips the phase and takes the stage back,
    without a comparison and two selections. That pays where addresses in front of the loop can take the bias away."""

    builder: Builder
    stages: int
    phase: Slot
    stage: Slot | None  # None: there is only one
    biased: bool

    @classmethod
    def start(cls, builder: Builder, stages: int, side: Side, hint: str, *, biased: bool) -> "Cursor":
        phase = builder.variable("i32", f"{hint}.phase")
        stage = builder.variable("i32", f"{hint}.stage") if stages > 1 else None
        cursor = cls(builder, stages, phase, stage, biased)
        phase.write(integer(_FIRST_PHASE[side] * cursor._phase_bit))
        if stage is not None:
            stage.write(integer(cursor._bias))
        return cursor

    @property
    def _wraps(self) -> bool:
        return self.stages > 2 and self.stages & (self.stages - 1) == 0

    @property
    def _bias(self) -> int:
        return (1 << self.stages.bit_length()) - self.stages if self.biased and self.stages & (self.stages - 1) else 0

    @property
    def _shift(self) -> int:
        return _TOP + 2 - self.stages.bit_length()

    @property
    def _phase_bit(self) -> int:
        return -1 << _TOP if self._wraps else 1

    def read(self) -> tuple[Value, Value]:
        """Stage and parity."""
        builder, phase = self.builder, self.phase.read()
        stage = integer(0) if self.stage is None else self.stage.read()
        if not self._wraps:
            return builder.add(stage, -self._bias), phase
        return builder.top(stage, self._shift), builder.bits("lshr", phase, _TOP)

    def keep(self, stage: Value, slot: Slot) -> None:
        """Stores a stage returned by `read`, in the form that `kept` expects."""
        if not self._wraps:
            slot.write(self.builder.add(stage, self._bias))
        elif stage.name in self.builder.words:
            slot.write(self.builder.words[stage.name][0])
        else:  # known at compile time
            slot.write(self.builder.bits("shl", stage, self._shift))

    def kept(self, slot: Slot, *, by_threads: bool) -> Value:
        """`by_threads`: it becomes a part of each thread's element addresses. One number serves them all better than shifts."""
        if not self._wraps:
            return self.builder.add(slot.read(), -self._bias)
        return self.builder.bits("lshr", slot.read(), self._shift) if by_threads else self.builder.top(slot.read(), self._shift)

    def step(self) -> None:
        builder, phase = self.builder, self.phase.read()
        if self.stage is None:
            self.phase.write(builder.bits("xor", phase, 1))
            return
        stage = self.stage.read()
        if self._wraps:
            whole = 1 << _TOP + 1
            self.stage.write(builder.add(stage, whole // self.stages))
            self.phase.write(builder.add(phase, whole // 2 // self.stages))
            return
        if self.stages == 2:
            self.phase.write(builder.binary("xor", phase, stage))
            self.stage.write(builder.bits("xor", stage, 1))
            return
        advanced = builder.add(stage, 1)
        if self._bias:
            turned = builder.bits("lshr", advanced, self.stages.bit_length())
            self.stage.write(builder.binary("add", advanced, builder.multiply(turned, -self.stages)))
            self.phase.write(builder.binary("xor", phase, turned))
            return
        wraps = builder.compare("eq", advanced, integer(self.stages))
        self.stage.write(builder.select(wraps, integer(0), advanced))
        self.phase.write(builder.binary("xor", phase, builder.cast("zext", wraps, "i32")))

    def follow(self, other: "Cursor") -> None:
        """Copies the position of another cursor, which is equal."""
        self.phase.write(other.phase.read())
        if self.stage is not None and other.stage is not None:
            self.stage.write(other.stage.read())

    def turn_back(self) -> None:
        """Goes back one phase, at the same stage."""
        self.phase.write(self.builder.bits("xor", self.phase.read(), self._phase_bit))
