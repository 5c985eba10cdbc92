"""Where a role stands on a ring: the stage it comes to next, and the parity of the phase that it waits for there."""

from pipec.lower.emit.llvm import Builder, Slot, Value, integer
from pipec.record import record
from pipec.vocabulary import Side

# The producer's first waits are for the phase before a fresh barrier's first, which counts as complete (hardware.md 1.1).
_FIRST_PHASE: dict[Side, int] = {"producer": 1, "consumer": 0}


@record
class Cursor:
    """A ring of 2 ** n stages has one counter of steps: the stage is its lowest n bits, the phase the bit above them. Others have both on
    their own, and compare where the counter would take a remainder."""

    builder: Builder
    stages: int
    phase: Slot  # of a ring of 2 ** n stages: the counter
    stage: Slot | None = None

    @classmethod
    def start(cls, builder: Builder, stages: int, side: Side, hint: str) -> "Cursor":
        first = _FIRST_PHASE[side]
        if _counts(stages):
            counter = builder.variable("i32", f"{hint}.step")
            counter.write(integer(first * stages))
            return cls(builder, stages, counter)
        stage, phase = builder.variable("i32", f"{hint}.stage"), builder.variable("i32", f"{hint}.phase")
        stage.write(integer(0))
        phase.write(integer(first))
        return cls(builder, stages, phase, stage)

    def read(self) -> tuple[Value, Value]:
        """Stage and parity."""
        builder, phase = self.builder, self.phase.read()
        if self.stage is not None:
            return self.stage.read(), phase
        stage = integer(0) if self.stages == 1 else builder.bits("and", phase, self.stages - 1)
        return stage, builder.bits("and", builder.bits("lshr", phase, self.stages.bit_length() - 1), 1)

    def step(self) -> None:
        builder, phase = self.builder, self.phase.read()
        if self.stage is None:
            self.phase.write(builder.bits("and", builder.add(phase, 1), 2 * self.stages - 1))
            return
        advanced = builder.add(self.stage.read(), 1)
        wraps = builder.compare("eq", advanced, integer(self.stages))
        self.stage.write(builder.select(wraps, integer(0), advanced))
        self.phase.write(builder.binary("xor", phase, builder.cast("zext", wraps, "i32")))

    def turn_back(self) -> None:
        """To the phase before, at the same stage."""
        bit = self.stages if self.stage is None else 1
        self.phase.write(self.builder.bits("xor", self.phase.read(), bit))


def _counts(stages: int) -> bool:
    return stages & (stages - 1) == 0
