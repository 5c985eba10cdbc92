"""benchmarks/compiling/sass.py: loops of a disassembly, counted by hand here; and of an example, where there is a disassembler."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.compiling.sass import disassembled, disassembler, functions, loops, wholes

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"

# A K loop as ptxas lays it out: the wait that has to be tried again stands behind the function's end, with a loop of its own (L_x_3).
K_LOOP = """
.section	.text.gemm,"ax",@progbits
.text.gemm:
        /*0000*/                   MOV R1, c[0x0][0x37c] ;
        /*0010*/               @P0 BRA `(.L_x_9) ;
.L_x_1:
        /*0020*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R4], R5 ;
        /*0030*/              @!P0 BRA `(.L_x_3) ;
.L_x_2:
        /*0040*/                   UTCHMMA gdesc[UR10], gdesc[UR12], tmem[UR8], tmem[UR26], idesc[UR27], UP1 ;
        /*0050*/                   UTCHMMA gdesc[UR14], gdesc[UR16], tmem[UR8], tmem[UR26], idesc[UR27], UPT ;
        /*0060*/                   UTCBAR [UR4], URZ ;
        /*0070*/                   BRA.U UP1, `(.L_x_1) ;
.L_x_9:
        /*0080*/                   EXIT ;
.L_x_3:
        /*0090*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R4], R5 ;
        /*00a0*/              @!P0 BRA `(.L_x_3) ;
        /*00b0*/                   BRA `(.L_x_2) ;
"""

# Tiles, and in each of them blocks: the inner loop works, so that the outer one is not counted; behind it a loop that does nothing.
NESTED = """
.text.walk:
.L_x_1:
        /*0000*/                   IADD3 R1, R1, 0x1, RZ ;
.L_x_2:
        /*0010*/                   UTMALDG.2D [UR12], [UR6] ;
        /*0020*/                   UTMALDG.2D [UR16], [UR10] ;
        /*0030*/              @P1 BRA `(.L_x_2) ;
        /*0040*/                   UTMASTG.2D [UR4], [UR8] ;
        /*0050*/               @P0 BRA `(.L_x_1) ;
.L_x_4:
        /*0060*/                   NANOSLEEP 0x14 ;
        /*0070*/               @P2 BRA `(.L_x_4) ;
        /*0080*/                   EXIT ;
.text.other:
.L_x_1:
        /*0000*/                   MUFU.EX2 R4, R5 ;
        /*0010*/                   MUFU.EX2 R6, R7 ;
        /*0020*/                   FFMA R4, R4, R5, R6 ;
        /*0030*/               @P0 BRA `(.L_x_1) ;
        /*0040*/                   EXIT ;
"""

# Masks that most turns skip (L_x_2), and a store that some do (L_x_3).
BRANCHES = """
.text.choose:
.L_x_1:
        /*0000*/               @P0 BRA `(.L_x_2) ;
        /*0010*/                   FSEL R4, R4, R5, P1 ;
        /*0020*/                   FSEL R6, R6, R5, P2 ;
        /*0030*/                   FSEL R7, R7, R5, P2 ;
.L_x_2:
        /*0040*/                   MUFU.EX2 R4, R5 ;
        /*0050*/               @P3 BRA `(.L_x_3) ;
        /*0060*/                   STG.E desc[UR4][R2.64], R4 ;
.L_x_3:
        /*0070*/               @P4 BRA `(.L_x_1) ;
        /*0080*/                   EXIT ;
"""


def test_a_wait_that_is_tried_again_is_not_part_of_the_loop() -> None:
    (loop,) = loops(K_LOOP)
    # Around: the first try, its branch, three of the product, the branch back; and the way back from the retry, which lies in the loop.
    assert loop.names.count("UTCHMMA") == 2 and loop.names.count("SYNCS.PHASECHK.TRANS64.TRYWAIT") == 1
    assert loop.row() == {"instructions": 7, "issued": 6, "mma": 2, "per mma": 3.0, "before": 2, "after": 7}


def test_innermost_loops_that_work() -> None:
    first, second = loops(NESTED)
    assert (first.function, first.row()) == ("walk", {"instructions": 3, "issued": 3, "load": 2, "before": 1, "after": 8})
    assert (second.function, second.row()) == (
        "other",
        {"instructions": 4, "issued": 4, "exponential": 2, "per exponential": 2.0, "before": 0, "after": 5},
    )


def test_a_branch_that_others_skip_is_not_issued() -> None:
    """Of two ways around, the shortest that does all the work: not the one that leaves out a store, nor the one with the masks."""
    (loop,) = loops(BRANCHES)
    ways = {"before": 0, "after": 5}
    assert loop.row() == {"instructions": 8, "issued": 5, "exponential": 1, "store": 1, "per exponential": 5.0, **ways}


# One warp sets up (up to L_x_1), all meet, and two roles load and store. All meet again, where one of them ends.
ROLES = """
.text.roles:
        /*0000*/               @P0 BRA `(.L_x_1) ;
        /*0010*/                   SYNCS.EXCH.64 URZ, [UR4], UR6 ;
        /*0020*/                   SYNCS.EXCH.64 URZ, [UR4+0x8], UR6 ;
.L_x_1:
        /*0030*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0040*/               @P1 BRA `(.L_x_3) ;
.L_x_2:
        /*0050*/                   UTMALDG.2D [UR12], [UR6] ;
        /*0060*/               @P2 BRA `(.L_x_2) ;
        /*0070*/                   BRA `(.L_x_4) ;
.L_x_3:
        /*0080*/                   BAR.SYNC.DEFER_BLOCKING 0x1, 0x80 ;
        /*0090*/                   UTMASTG.2D [UR4], [UR8] ;
        /*00a0*/               @P3 BRA `(.L_x_3) ;
.L_x_4:
        /*00b0*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*00c0*/               @P4 EXIT ;
        /*00d0*/                   UTCATOMSWS.AND URZ, UR5 ;
        /*00e0*/                   EXIT ;
"""


def test_instructions_before_and_after_the_loops() -> None:
    """A barrier in a loop, or of one role, is neither in front of all loops nor behind them."""
    assert wholes(ROLES) == {"roles": {"instructions": 15, "setup": 4, "teardown": 4}}
    load, store = loops(ROLES)
    assert (load.before, load.after) == (3, 5) and (store.before, store.after) == (3, 5)
    alone = ROLES.replace("BAR.SYNC.DEFER_BLOCKING 0x0", "NOP")
    assert wholes(alone) == {"roles": {"instructions": 15}} and wholes("") == {}


def test_roles_behind_a_table_of_branches() -> None:
    """Such as of CuTe DSL: nothing else leads to them."""
    table = ROLES.replace("@P1 BRA `(.L_x_3) ;", 'BRX R2 -0x40  (*"BRANCH_TARGETS .L_x_2,.L_x_3"*);')
    assert table != ROLES and [loop.row() for loop in loops(table)] == [loop.row() for loop in loops(ROLES)]
    assert "store" in loops(table)[1].work


def test_text_without_loops() -> None:
    assert loops("") == [] and loops("no disassembly\n") == []
    assert loops(K_LOOP.replace("BRA.U UP1", "BRA.U UP1, UP2").replace("(.L_x_1) ;\n.L_x_9", "(.L_x_9) ;\n.L_x_9")) == []


def test_labels_belong_to_their_function() -> None:
    assert [(name, len(instructions), len(labels)) for name, instructions, labels in functions(NESTED)] == [
        ("walk", 9, 3),
        ("other", 5, 1),
    ]


@pytest.mark.skipif(disassembler() is None, reason="nvdisasm is not here")
def test_the_loops_of_a_gemm() -> None:
    import pipec

    tool = disassembler()
    assert tool is not None
    program = pipec.compile(Path(__file__).parents[2] / "examples" / "gemm.pipe")
    text = disassembled(program.cubin(), tool)
    found = loops(text)
    assert [sorted(loop.work) for loop in found] == [["mma"], ["load"], ["store"]]
    # Four products of 16 of the 64 columns of a K block, two tiles loaded.
    assert found[0].work["mma"] == 4 and found[1].work["load"] == 2
    assert all(15 < len(loop.names) < 120 for loop in found)
    assert len(re.findall(r"UTCHMMA", text)) == 4


# What the MMA warp and the load warp may issue for one K block of the examples that a GEMM is copied from.
_MOST = {
    "gemm": (26, 19),
    "gemm_persistent": (26, 19),
    "gemm_clc": (26, 19),
    "gemm_2cta": (29, 22),
    "gemm_grouped": (28, 21),
    "gemm_mxfp8": (37, 28),
    "gemm_mxfp8_2cta": (38, 29),
    "gemm_nvfp4": (58, 28),
    "gemm_nvfp4_2cta": (60, 30),
    "gemm_blockwise_fp8": (36, 24),
    "gemm_direct": (34, 27),
    "gemm_sm90": (30, 19),
    "gemm_sm90_cluster": (38, 20),
}


@pytest.mark.sample(0.4)
@pytest.mark.skipif(disassembler() is None, reason="nvdisasm is not here")
@pytest.mark.parametrize("name", _MOST)
def test_issue_of_a_k_block(name: str) -> None:
    import pipec

    tool = disassembler()
    assert tool is not None
    program = pipec.compile(Path(__file__).parents[2] / "examples" / f"{name}.pipe")
    found = loops(disassembled(program.cubin(), tool))
    (multiplies,) = (loop for loop in found if "mma" in loop.work)
    (copies,) = (loop for loop in found if "load" in loop.work)
    assert multiplies.issued <= _MOST[name][0] and copies.issued <= _MOST[name][1]
    # Nothing decides anew who acts.
    assert not [one for one in multiplies.names if one.startswith("BSSY")]


@pytest.mark.skipif(disassembler() is None, reason="nvdisasm is not here")
@pytest.mark.parametrize(("name", "most"), [("gemm", 67), ("gemm_2cta", 67), ("gemm_persistent", 68)])
def test_issue_of_64_columns_of_an_epilogue(name: str, most: int) -> None:
    """32 conversions, 8 stores of 16 bytes to places that a thread computes once, and one load of tensor memory, so one latency."""
    import pipec

    tool = disassembler()
    assert tool is not None
    text = disassembled(pipec.compile(Path(__file__).parents[2] / "examples" / f"{name}.pipe").cubin(), tool)
    (stores,) = (loop for loop in loops(text) if "store" in loop.work)
    assert stores.issued <= most
    assert [one for one in stores.names if one.startswith("LDTM")] == ["LDTM.x64"]
    assert not [one for one in stores.names if one.startswith("LOP3")]


@pytest.mark.skipif(disassembler() is None, reason="nvdisasm is not here")
@pytest.mark.parametrize(
    ("constants", "most", "multiplies"),
    [({}, 528, 135), ({"D": 128}, 528, 174), ({"D": 128, "CAUSAL": True, "RAGGED": True, "CTAS": 2}, 542, 182)],
    ids=["64", "128", "128-all"],
)
def test_issue_of_attention(constants: dict[str, int | bool], most: int, multiplies: int) -> None:
    import pipec

    tool = disassembler()
    assert tool is not None
    program = pipec.compile(Path(__file__).parents[2] / "examples" / "attention.pipe", constants=constants)
    text = loops(disassembled(program.cubin(), tool))
    found = [loop for loop in text if "exponential" in loop.work]
    # 112 of 128 scores, the others by a polynomial, and the factor of what was summed before: 264 or 271 instructions for 64 keys.
    # Alone, a CTA has one softmax for both of its tiles (pipec.kir.plan.twins); in a pair each drains what the other CTA gives back.
    assert len(found) == (2 if constants.get("CTAS") == 2 else 1)
    assert all(loop.work["exponential"] == 113 and loop.issued <= most for loop in found)
    # Two tiles of scores and two of products with the values, 4 or 8 MMAs each and on two ways around.
    (products,) = (loop for loop in text if "mma" in loop.work)
    assert products.issued <= multiplies


def test_the_record_is_of_the_examples() -> None:
    record = json.loads((RESULTS / "sass.json").read_text())
    examples = {path.stem for path in (RESULTS.parents[1] / "examples").glob("*.pipe")}
    assert record["figures"]["examples"].keys() <= examples
    gemm = record["figures"]["examples"]["gemm"]["loops"]["gemm"]
    assert {kind for loop in gemm for kind in loop} >= {"instructions", "mma", "load", "store"}
