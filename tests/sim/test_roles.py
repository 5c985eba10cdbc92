"""What warps of foreign kernels are called: by the part of the code that they alone work on."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import SimulationError, launch

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<6>; .reg .b32 %t, %w, %r<6>; .reg .b64 %d<3>; .shared .b32 word;"
START = "mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; setp.eq.u32 %p1, %w, 0; setp.eq.u32 %p2, %w, 1; and.b32 %r1, %t, 31;"


def failed(body: str) -> SimulationError:
    text = f"{HEAD}.entry k(.param .u64 p0) {{ {REGISTERS} {START}\n{body}\nEND: ret; }}"
    with pytest.raises(SimulationError) as caught:
        launch(text, block=128, arguments=[np.zeros(4, np.uint32)])
    return caught.value


DISPATCH = """@%p1 bra PRODUCER;
@%p2 bra CONSUMER;
bra END;
PRODUCER: setp.ne.u32 %p3, %r1, 0; @%p3 bra SKIP; st.shared.b32 [word], 1; SKIP: bra END;
CONSUMER: ld.shared.b32 %r2, [word]; bra END;"""


def test_both_sides_of_a_race_have_the_label_of_their_part():
    """Also behind a branch that lanes take alone, as the one that elects a thread."""
    error = failed(DISPATCH)
    assert error.kind == "race"
    assert {error.details["role"], error.details["other"]["role"]} == {"PRODUCER", "CONSUMER"}
    assert "role `CONSUMER` (warp 1)" in error.message + str(error.details["other"]["who"])
    assert "role `PRODUCER` (warp 0)" in error.message


def test_a_part_without_a_label_is_called_by_its_line():
    error = failed("@%p1 bra FIRST;\nst.shared.b32 [word], %t;\nbra END;\nFIRST: ld.shared.b32 %r2, [word];")
    assert {error.details["role"], error.details["other"]["role"]} == {"FIRST", "from PTX line 6"}


def test_what_all_warps_do_has_no_role():
    error = failed("st.shared.b32 [word], %t;")
    assert error.details["role"] is None and "role" not in error.message


def test_partitions_are_numbered_by_their_table():
    table = "TABLE: .branchtargets ONE, TWO, END;"
    error = failed(
        f"{table}\nmin.u32 %w, %w, 2; brx.idx %w, TABLE; ONE: st.shared.b32 [word], 1; bra END; TWO: ld.shared.b32 %r2, [word]; bra END;"
    )
    assert {error.details["role"], error.details["other"]["role"]} == {"partition 0", "partition 1"}


def test_a_deadlock_names_the_parts():
    error = failed("@%p1 bra FIRST; @%p2 bra SECOND; bra END; FIRST: bar.sync 1, 96; bra END; SECOND: bar.sync 1, 96;")
    assert error.kind == "deadlock"
    assert "role `FIRST` (warp 0)" in error.message and "role `SECOND` (warp 1)" in error.message
