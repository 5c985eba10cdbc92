"""The mbarrier state machine (PTX ISA 9.7.13.15), with the corner cases as measured on hardware."""

from __future__ import annotations

from .errors import UnitError

MAXIMUM_COUNT = (1 << 20) - 1
# The pending byte count is a 21-bit two's complement number of *completed minus expected* bytes, hence the lopsided range.
MAXIMUM_TX = 1 << 20
MINIMUM_TX = -((1 << 20) - 1)
MAXIMUM_TX_OPERAND = (1 << 20) - 1

_PENDING_SHIFT = 43
_TX_SHIFT = 21
_EXPECTED_SHIFT = 1
_COUNT_MASK = (1 << 20) - 1
_TX_MASK = (1 << 21) - 1


class Mbarrier:
    """One barrier object.

    phase     number of completed phases; only its parity is visible to programs
    expected  arrivals that each later phase starts with
    pending   arrivals still missing in the current phase
    tx        bytes announced minus bytes delivered in the current phase (may be negative for a while)

    Every operation returns True when it completed the current phase.
    """

    __slots__ = ("expected", "pending", "phase", "tx")

    def __init__(self, count: int):
        if not 1 <= count <= MAXIMUM_COUNT:
            raise UnitError("illegal", f"mbarrier.init count {count} is outside 1..{MAXIMUM_COUNT}")
        # The first phase has parity 0: a wait for parity 1 of a fresh barrier passes, which producers rely on.
        self.phase = 0
        self.expected = count
        self.pending = count
        self.tx = 0

    def __repr__(self) -> str:
        return f"Mbarrier(phase={self.phase}, expected={self.expected}, pending={self.pending}, tx={self.tx})"

    @property
    def counters(self) -> tuple[int, int, int, int]:
        return self.phase, self.pending, self.expected, self.tx

    def arrive(self, count: int = 1) -> bool:
        """`count` arrivals (0 is accepted and does nothing).  More arrivals than pending fault on hardware."""
        self._take_arrivals(count)
        return self._finish_phase_if_done() if count else False

    def expect_tx(self, byte_count: int) -> bool:
        """Announce bytes.  Completes the phase only if it brings a negative byte count back to zero (measured)."""
        self._move_tx(byte_count, +1, "expect_tx")
        return self._finish_phase_if_done()

    def complete_tx(self, byte_count: int) -> bool:
        """Deliver bytes; a copy may deliver its bytes in several pieces."""
        self._move_tx(byte_count, -1, "complete_tx")
        return self._finish_phase_if_done()

    def arrive_expect_tx(self, byte_count: int) -> bool:
        """Announce bytes, then arrive once; the announcement alone cannot end the phase because an arrival is pending."""
        # The excess arrival is the fault, and it leaves the byte count unchanged.
        if self.pending < 1:
            self._take_arrivals(1)
        self._move_tx(byte_count, +1, "arrive.expect_tx")
        return self.arrive()

    def arrive_drop(self, count: int = 1) -> bool:
        """Arrive `count` times and drop out of all later phases."""
        self._take_arrivals(count)
        # From the next phase on; this one still counts the arrival.
        self.expected -= count
        return self._finish_phase_if_done() if count else False

    def arrive_drop_expect_tx(self, byte_count: int) -> bool:
        """Announce bytes, then arrive once and leave."""
        if self.pending < 1:
            self._take_arrivals(1)
        self._move_tx(byte_count, +1, "arrive_drop.expect_tx")
        return self.arrive_drop()

    def test_parity(self, parity: int) -> bool:
        """True when the phase of that parity is the completed one, i.e. not the current one.  Only bit 0 counts."""
        return (self.phase & 1) != (parity & 1)

    def token(self) -> int:
        """64-bit state word; take it *before* an arrive, as the instruction does.

        Bit 63 is the phase parity and bits 62:43 hold minus the pending count, as measured; the lower part shows the
        other counters in the measured layout, although hardware leaves that half of a token unspecified.
        """
        return (
            (self.phase & 1) << 63
            | (-self.pending & _COUNT_MASK) << _PENDING_SHIFT
            | (-self.tx & _TX_MASK) << _TX_SHIFT
            | (-self.expected & _COUNT_MASK) << _EXPECTED_SHIFT
        )

    def test_token(self, token: int) -> bool:
        """True when the phase recorded in `token` is over.  Hardware compares the phase bit alone."""
        return (token >> 63 & 1) != (self.phase & 1)

    @staticmethod
    def pending_count(token: int) -> int:
        """Arrivals that were pending just before the operation which returned `token`."""
        return -(token >> _PENDING_SHIFT) & _COUNT_MASK

    def _take_arrivals(self, count: int) -> None:
        if count < 0:
            raise UnitError("illegal", f"arrive count {count} is negative")
        if count > self.pending:
            raise UnitError(
                "arrive_underflow",
                f"{count} arrivals on an mbarrier with {self.pending} pending (phase {self.phase}, tx {self.tx})",
            )
        self.pending -= count

    def _move_tx(self, byte_count: int, direction: int, operation: str) -> None:
        if not 0 <= byte_count <= MAXIMUM_TX_OPERAND:
            raise UnitError("byte_mismatch", f"{operation} of {byte_count} bytes is outside 0..{MAXIMUM_TX_OPERAND}")
        tx = self.tx + direction * byte_count
        if not MINIMUM_TX <= tx <= MAXIMUM_TX:
            raise UnitError(
                "byte_mismatch",
                f"{operation} of {byte_count} bytes moves tx from {self.tx} to {tx}, outside {MINIMUM_TX}..{MAXIMUM_TX}",
            )
        self.tx = tx

    def _finish_phase_if_done(self) -> bool:
        if self.pending or self.tx:
            return False
        self.phase += 1
        self.pending = self.expected
        return True
