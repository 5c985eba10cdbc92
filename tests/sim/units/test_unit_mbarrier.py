"""The mbarrier state machine against worked traces and measured landmarks."""

import pytest
from unit_memories import raises

from pipec.sim.units.mbarrier import MAXIMUM_COUNT, Mbarrier


def state(barrier):
    return barrier.phase, barrier.expected, barrier.pending, barrier.tx


def test_two_byte_tracked_loads():
    barrier = Mbarrier(1)
    assert not barrier.test_parity(0) and barrier.test_parity(1)
    assert not barrier.arrive_expect_tx(49152)
    assert state(barrier) == (0, 1, 0, 49152)
    assert not barrier.complete_tx(16384)
    assert barrier.complete_tx(32768)
    assert state(barrier) == (1, 1, 1, 0)
    assert barrier.test_parity(0) and not barrier.test_parity(1)


def test_bytes_may_come_before_they_are_announced():
    barrier = Mbarrier(1)
    assert not barrier.complete_tx(16384)
    assert state(barrier) == (0, 1, 1, -16384)
    assert not barrier.arrive_expect_tx(49152)
    assert barrier.complete_tx(32768)
    assert barrier.phase == 1


def test_late_announcement_ends_an_over_completed_phase():
    barrier = Mbarrier(1)
    barrier.complete_tx(16)
    assert not barrier.arrive() and barrier.pending == 0 and barrier.tx < 0
    assert barrier.expect_tx(16)
    assert state(barrier) == (1, 1, 1, 0)


def test_arrive_counts_and_drop():
    barrier = Mbarrier(3)
    assert not barrier.arrive(0)
    assert not barrier.arrive(2)
    assert barrier.arrive()
    assert not barrier.arrive_drop()
    assert state(barrier) == (1, 2, 2, 0)
    assert barrier.arrive(2)
    assert state(barrier) == (2, 2, 2, 0)
    assert not barrier.arrive_drop_expect_tx(64)
    assert not barrier.arrive()
    assert barrier.complete_tx(64)
    assert state(barrier) == (3, 1, 1, 0)


def test_tokens():
    barrier = Mbarrier(5)
    token = barrier.token()
    barrier.arrive(2)
    second = barrier.token()
    assert Mbarrier.pending_count(token) == 5 and Mbarrier.pending_count(second) == 3
    assert not barrier.test_token(token)
    barrier.arrive(3)
    assert barrier.test_token(token)
    barrier.arrive(5)
    # Only the phase bit is compared, so the answer aliases two phases later.
    assert not barrier.test_token(token)


@pytest.mark.parametrize(("count", "word"), [(1, 0x7FFFF800001FFFFE), (7, 0x7FFFC800001FFFF2)])
def test_measured_words(count, word):
    assert Mbarrier(count).token() == word


def test_measured_words_with_bytes_and_phase():
    barrier = Mbarrier(1)
    barrier.expect_tx(16)
    assert barrier.token() == 0x7FFFFBFFFE1FFFFE
    barrier.complete_tx(16)
    barrier.arrive()
    assert barrier.token() == 0xFFFFF800001FFFFE
    barrier.arrive_expect_tx(64)
    assert barrier.token() == 0x800003FFF81FFFFE


def test_tx_range():
    barrier = Mbarrier(1)
    barrier.expect_tx(0xFFFFF)
    barrier.expect_tx(1)
    with raises("byte_mismatch", "1048576", "1048577"):
        barrier.expect_tx(1)
    with raises("byte_mismatch", "1048576", "1048575"):
        Mbarrier(1).expect_tx(0x100000)
    barrier = Mbarrier(1)
    barrier.complete_tx(0xFFFFF)
    with raises("byte_mismatch", "-1048575"):
        barrier.complete_tx(1)


def test_misuse():
    for count in (0, MAXIMUM_COUNT + 1):
        with raises("illegal", str(count), str(MAXIMUM_COUNT)):
            Mbarrier(count)
    barrier = Mbarrier(2)
    with raises("arrive_underflow", "3 arrivals", "2 pending"):
        barrier.arrive(3)
    barrier = Mbarrier(1)
    barrier.arrive_expect_tx(8)
    with raises("arrive_underflow", "1 arrivals", "0 pending"):
        barrier.arrive_expect_tx(8)
    assert barrier.tx == 8
