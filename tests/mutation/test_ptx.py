"""Faults in PTX: each is one change that the simulator can read, and what runs is told from what does not."""

from pathlib import Path

import pytest

from mutation.ptx import KINDS, mutants, trapped
from pipec.sim.ptx.parse import parse

GOLDEN = Path(__file__).parents[1] / "golden"
TEXTS = {
    name: (GOLDEN / f"{name}.ptx").read_text(encoding="utf-8") for name in ("gemm_2cta", "gemm_sm90_cluster", "rms_norm_cluster")
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_mutant_is_ptx_of_as_many_lines(name: str) -> None:
    found = list(mutants(TEXTS[name]))
    assert len(found) > 60 and len({mutant.text for mutant in found}) == len(found)
    assert all(mutant.text.count("\n") == TEXTS[name].count("\n") for mutant in found)
    for mutant in found[::9]:
        parse(mutant.text)


def test_kinds_are_those_of_the_two_targets() -> None:
    others = {"atomic", "stage", "bytes of a copy"}  # which compilers other than this one have
    assert {mutant.kind for text in TEXTS.values() for mutant in mutants(text)} >= {*KINDS} - others


def test_a_change_stands_where_the_instruction_stood() -> None:
    text = "// mbarrier.init.b64 [%a], 1;\n@%p mbarrier.try_wait.parity.b64 %q, [%r1], %r2;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;"
    by_change = {(mutant.kind, mutant.change): mutant for mutant in mutants(text)}
    assert by_change["wait for an mbarrier", "removed"].text.split("\n")[1] == "@%p setp.eq.u32 %q, 0, 0;"
    assert (
        "xor.b32 %own, %own, 1; @%p mbarrier.try_wait.parity.b64 %q, [%r1], %own; }"
        in by_change["wait for an mbarrier", "the other parity"].text
    )
    assert "[%r1+8]" in by_change["wait for an mbarrier", "the next barrier"].text
    assert "barrier" not in by_change["barrier of the cluster", "removed"].text.split("%r2;")[1]
    assert not any(kind == "initialisation" for kind, _ in by_change)  # in a comment
    assert trapped(text, 2).split("\n")[1].startswith("@%p trap; @%p mbarrier")


def changed(text: str, kind: str, change: str) -> str:
    (found,) = (mutant for mutant in mutants(text) if (mutant.kind, mutant.change) == (kind, change))
    return found.text


def test_an_instruction_goes_past_another_one() -> None:
    text = "fence.proxy.async;\nbar.sync 0;\ntcgen05.mma.x [%r1], %d, %e, %r2, %p1;\ntcgen05.commit.x [%r3];\n"
    assert changed(text, "proxy fence", "behind what follows").split("\n")[1] == "bar.sync 0; fence.proxy.async; "
    lines = changed(text, "commit", "before the product").split("\n")
    assert "tcgen05.commit.x [%r3];" in lines[2].split("tcgen05.mma")[0] and not lines[3].strip()
    # Not past a label: other threads may come from elsewhere.
    assert not [one for one in mutants("fence.proxy.async;\nL1:\nbar.sync 0;\n") if one.change == "behind what follows"]


@pytest.mark.parametrize(
    ("instruction", "kind", "change", "becomes"),
    [
        ("selp.b32 %r1, 0, %r2, %p1;", "stage", "the other value", "selp.b32 %r1, %r2, 0, %p1;"),
        ("xor.b32 %r1, %r2, %r3;", "swizzle", "bits as they are", "mov.b32 %r1, %r2;"),
        ("shl.b32 %r1, %r2, 7;", "distance", "half as far", "shl.b32 %r1, %r2, 6;"),
        (
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];",
            "swizzle",
            "transposed or not",
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];",
        ),
        ("@%p1 mbarrier.init.b64 [%r1], 1;", "election", "by the others", "@!%p1 mbarrier.init.b64 [%r1], 1;"),
        ("bar.sync 1, 64;", "barrier of the CTA", "arrives alone", "bar.arrive 1, 64;"),
        ("tcgen05.wait::ld.sync.aligned;", "wait of tensor memory", "of the other kind", "tcgen05.wait::st.sync.aligned ;"),
        ("barrier.cluster.wait;", "barrier of the cluster", "one part removed", ""),
        (
            "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r1], %h;",
            "multicast",
            "not to others",
            "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r1];",
        ),
        (
            "cp.async.bulk.global.shared::cta.bulk_group [%d], [%a], 64;",
            "bytes of a copy",
            "+16 bytes",
            "{ .reg .b32 %own; mov.b32 %own, 64; add.s32 %own, %own, 16; cp.async.bulk.global.shared::cta.bulk_group [%d], [%a], %own; }",
        ),
    ],
)
def test_what_an_instruction_becomes(instruction: str, kind: str, change: str, becomes: str) -> None:
    assert changed(instruction, kind, change) == becomes


def test_a_wait_goes_behind_the_use() -> None:
    text = "L: @%q mbarrier.try_wait.parity.b64 %p, [%r1], %r2;\n@!%p bra L;\nld.shared.u32 %r3, [%r4];\n"
    first, _, use, _ = changed(text, "wait for an mbarrier", "behind the use").split("\n")
    assert first == "L: @%q setp.eq.u32 %p, 0, 0;"
    assert (
        use.startswith("ld.shared.u32 %r3, [%r4]; {")
        and "@!%q bra MOVED_END; MOVED: mbarrier.try_wait.parity.b64 %own, [%r1], %r2;" in use
    )


def test_a_buffer_begins_earlier() -> None:
    text = ".extern .shared .align 16 .b8 all[];\nmov.b32 %r1, all;\nadd.s32 %r2, %r1, 4096;\nadd.s32 %r3, %r9, 4096;\n"
    found = {mutant.text.split("\n")[mutant.line - 1] for mutant in mutants(text) if mutant.kind == "overlap"}
    assert found == {"add.s32 %r2, %r1, 4080;", "add.s32 %r2, %r1, 3072;"}


def test_an_atomic_comes_apart() -> None:
    text = changed("@%p atom.global.gpu.relaxed.add.u32 %r1, [%rd1], %r2;", "atomic", "a load and a store")
    assert "@%p ld.global.u32 %r1, [%rd1]; @%p add.u32 %sum, %r1, %r2; @%p st.global.u32 [%rd1], %sum;" in text
