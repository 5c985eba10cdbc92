"""Tiles in tensor memory besides accumulators: written by threads, or read by an MMA as operand `a` (E0736 to E0738)."""

from pipec.checks.facts import ACCUMULATE, OPERAND, WRITE, Facts, Touch
from pipec.diag.catalogue import tensor_tiles as messages
from pipec.diag.message import Sink
from pipec.sema import tree

_LANES = 128
_WHOLE_COLUMNS = (16, 32)
_USES = {WRITE: "written by threads", OPERAND: "operand `a` of an MMA"}


def check(facts: Facts, wrong: set[tree.Buffer], sink: Sink) -> None:
    """Says nothing of the tiles in `wrong`."""
    first: dict[tuple[tree.Buffer, str], Touch] = {}
    for _, handle in facts.handles():
        for _, touch in handle.touches:
            if touch.buffer is not None and touch.buffer.space == "tensor" and touch.buffer not in wrong:
                first.setdefault((touch.buffer, touch.kind), touch)
    told: set[tree.Buffer] = set()
    for (buffer, kind), touch in first.items():
        if kind not in _USES or buffer in told:
            continue
        if buffer.rows != _LANES:
            told.add(buffer)
            sink.report(
                messages.TensorTileRows(
                    buffer=buffer.label, rows=buffer.rows, use=_USES[kind], at=touch.span, declared=buffer.span
                )
            )
        elif kind == WRITE and (buffer, OPERAND) not in first and buffer.dtype.bits not in _WHOLE_COLUMNS:
            dtype = buffer.dtype
            sink.report(
                messages.TensorTileType(
                    buffer=buffer.label, dtype=dtype.name, bits=dtype.bits, at=touch.span, declared=buffer.span
                )
            )
        elif kind == OPERAND and (buffer, ACCUMULATE) in first:
            accumulator = first[buffer, ACCUMULATE].span
            sink.report(
                messages.OperandAndAccumulator(buffer=buffer.label, at=touch.span, accumulator=accumulator, declared=buffer.span)
            )
