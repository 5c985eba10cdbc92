"""What shipped compilers rely on beyond PTX: kernels of pipec, rewritten as other compilers write them, give the same results under
the rules "practice" and are refused under "documents"."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from examples.catalogue import EXAMPLES, Case, compiled
from silicon import extras
from silicon.program import Program
from silicon.run import simulate

from pipec import sim
from pipec.reference import trial_of
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options, SimulationError
from pipec.sim.machine.practice import PRACTICES, PracticeName, Rules

ROOT = Path(__file__).parents[2]
CHUNKS = {"M_CHUNKS": 1, "N_CHUNKS": 1, "K_CHUNKS": 2}


@dataclass(frozen=True)
class Form:
    """`change` gives the lines that stand in place of one that matches `line`; the register %own is the test's."""

    kernel: str
    line: str
    change: Callable[[re.Match[str]], str]
    practice: PracticeName | None
    kind: str = ""
    shape: tuple[tuple[str, int], ...] = (("M", 128), ("N", 128), ("K", 256))

    @property
    def case(self) -> Case:
        """With f32 what is loaded from tensor memory is stored as it is."""
        constants = (("OUT", "f32"), ("BN", "128")) if self.kernel == "gemm_mxfp8" else ()
        return Case(EXAMPLES / f"{self.kernel}.pipe", constants)


def _lane_of_no_warp(found: re.Match[str]) -> str:
    """The quarter of the warp is left out of the lane, as DeepGEMM and Mojo do."""
    return f"and.b32 %own, {found['address']}, 0xFF9FFFFF;\n" + found[0].replace(f"[{found['address']}]", "[%own]")


def _lane_of_the_pair(found: re.Match[str]) -> str:
    """Lanes are counted through both CTAs, as in opengemm."""
    own = f"mov.u32 %own, %cluster_ctarank;\nshl.b32 %own, %own, 23;\nadd.u32 %own, %own, {found['address']};\n"
    return own + found[0].replace(f"[{found['address']}]", "[%own]")


def _scale_id(found: re.Match[str]) -> str:
    """The id stands in bits 30 and 31 of both scale addresses, as in CUTLASS."""
    lines = f"or.b32 %own, {found['a']}, 0x80000000;\nor.b32 %own2, {found['b']}, 0xC0000000;\n"
    return lines + found[0].replace(f"[{found['a']}], [{found['b']}]", "[%own], [%own2]")


def _no_constant(found: re.Match[str]) -> str:
    """Bits 46 to 48 are 0, as in JAX's kernels."""
    descriptors = [found[name] for name in ("descriptor", "b") if found.groupdict().get(name)]
    lines = [f"and.b64 %own{name}, {one}, {~(7 << 46)};\n" for name, one in zip("de", descriptors, strict=False)]
    changed = found[0]
    for name, one in zip("de", descriptors, strict=False):
        changed = changed.replace(one, f"%own{name}")
    return "".join(lines) + changed


def _base_offset(found: re.Match[str]) -> str:
    """Triton computes a base offset from the address also where the layout has no swizzle."""
    return f"or.b64 %ownd, {found['descriptor']}, {5 << 49:#x};\n" + found[0].replace(found["descriptor"], "%ownd")


def _no_wait(found: re.Match[str]) -> str:
    return ""


def _late_wait(found: re.Match[str]) -> str:
    return f"{found['use']}\n{found['wait']}"


LATE_WAIT = r"(?m)^(?P<wait>.*tcgen05\.wait::ld.*;)\n(?P<use>(?:.*;\n)*?.*st\.shared\.v4.*;)"
STORE_WAIT = r"(?m)^.*cp\.async\.bulk\.wait_group(\.read)?\s+0;"
FENCE = r"(?m)^.*tcgen05\.fence::(before|after)_thread_sync;"
LOAD = r"(?m)^.*tcgen05\.ld\.sync.*\[(?P<address>%r\d+)\];"
STORE = r"(?m)^.*tcgen05\.st\.sync[^\[]*\[(?P<address>%r\d+)\],.*;"
SCALED = r"(?m)^.*tcgen05\.mma\.[^\[]*block_scale.* \[(?P<a>%r\d+)\], \[(?P<b>%r\d+)\], .*;"
MULTIPLY = r"(?m)^.*tcgen05\.mma\.[^\[]*\[%r\d+\], (?P<descriptor>%rd\d+), (?P<b>%rd\d+), .*;"
COPY = r"(?m)^.*tcgen05\.cp\..*\], (?P<descriptor>%rd\d+);"

FORMS = {
    "loads name no quarter": Form("gemm_mxfp8", LOAD, _lane_of_no_warp, "quarter-relative lanes", "undefined"),
    "loads count the lanes of both CTAs": Form(
        "gemm_2cta", LOAD, _lane_of_the_pair, "lanes of the pair", "undefined", (("M", 256), ("N", 256), ("K", 128))
    ),
    # Without a single step of K the accumulator is zeroed by stores.
    "stores name no quarter": Form(
        "gemm_persistent", STORE, _lane_of_no_warp, "quarter-relative lanes", "undefined", (("M", 128), ("N", 128), ("K", 0))
    ),
    "scale ids in addresses": Form("gemm_mxfp8", SCALED, _scale_id, "scale id in the address", "undefined"),
    "multiplied without the descriptors' constant": Form(
        "gemm_mxfp8", MULTIPLY, _no_constant, "descriptor without its constant", "undefined"
    ),
    "copied without the descriptor's constant": Form(
        "gemm_mxfp8", COPY, _no_constant, "descriptor without its constant", "undefined"
    ),
    "no wait for stores before the exit": Form("gemm_mxfp8", STORE_WAIT, _no_wait, "bulk stores at exit", "undefined"),
    "wait for loads behind the first use": Form("gemm_mxfp8", LATE_WAIT, _late_wait, "registers before tcgen05.wait::ld", "race"),
    "no fences of tensor memory": Form("gemm_mxfp8", FENCE, _no_wait, "no tcgen05.fence at all", "race"),
    # No rule of PTX is broken: there is no pattern whose phase the offset could move.
    "base offset without a swizzle": Form("gemm_mxfp8", COPY, _base_offset, None),
}


def rewritten(form: Form) -> str:
    changed, count = re.subn(form.line, form.change, compiled(form.case).ptx or "")
    assert count, f"no line like {form.line}"
    return changed.replace(".reg .pred", ".reg .b32 %own, %own2;\n.reg .b64 %ownd, %owne;\n.reg .pred", 1)


def ran(form: Form, ptx: str, rules: Rules) -> list[PracticeName]:
    """What the run relied on; its results are right."""
    (plan,) = compiled(form.case).plans or []
    trial = trial_of(plan, CHUNKS | dict(form.shape), seed=1)
    options = LaunchOptions(Options(rules=rules))
    result = launch(plan.interface, ptx, trial.arguments, device="sim", options=options)
    assert all(outcome.passed for outcome in trial.judged())
    assert result.simulation is not None
    return result.simulation.relied_on


@pytest.mark.parametrize("name", FORMS)
def test_practice_runs_and_says_so(name: str) -> None:
    form = FORMS[name]
    assert ran(form, rewritten(form), "practice") == ([form.practice] if form.practice else [])


@pytest.mark.parametrize("name", FORMS)
def test_documents_refuse(name: str) -> None:
    form = FORMS[name]
    if form.practice is None:
        assert ran(form, rewritten(form), "documents") == []
        return
    with pytest.raises(SimulationError) as caught:
        ran(form, rewritten(form), "documents")
    assert caught.value.kind == form.kind


def test_what_keeps_to_the_documents_relies_on_nothing() -> None:
    form = next(iter(FORMS.values()))
    assert ran(form, compiled(form.case).ptx or "", "practice") == []


def test_a_missing_fence_is_reported_where_there_are_others() -> None:
    case = FORMS["no fences of tensor memory"].case
    (plan,) = compiled(case).plans or []
    text = re.sub(FENCE.replace("before|", ""), "", compiled(case).ptx or "")
    trial = trial_of(plan, CHUNKS | {"M": 128, "N": 128, "K": 256}, seed=1)
    result = launch(plan.interface, text, trial.arguments, device="sim", options=LaunchOptions(Options(rules="practice")))
    assert result.simulation is not None and {one.check for one in result.simulation.findings} == {"fence"}


def test_every_practice_has_a_row_and_a_form() -> None:
    text = (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8")
    for name, practice in PRACTICES.items():
        assert f"| {name} | {practice.promised} | {practice.done} | {practice.evidence} |" in text
    shown = {form.practice for form in FORMS.values()} - {None}
    # The others are shown here, in tests/oracle, and by test_hopper_tile.py, test_known_phases.py, test_races.py,
    # test_registers.py, test_signalled_barriers.py, test_told.py, test_unwritten.py and test_warpgroups.py.
    elsewhere = {
        "half a tensor map",
        "overwriting without a proxy fence",
        "equal stores",
        "replicated loads",
        PAST_CACHE,
        UNWRITTEN,
        EQUAL_LANES,
        FOR_NOBODY,
        "own memory behind a relaxed cluster barrier",
        "loads before a relaxed cluster barrier",
        "arrivals before a relaxed cluster barrier",
        "requests for clusters in order",
        "reads before another CTA's copy",
        "allocations of a pair meet",
        "cluster arrivals without a wait",
        "cluster arrivals in advance",
        "registers set without lanes that exit",
        "registers set by warps alone",
        "waits of onlookers",
        "loads that an atomic checks",
        "mbarriers of a CTA without a fence",
        "mbarriers of no count",
        "stores before an arrival of copies",
    }
    assert shown | elsewhere | {"registers behind wgmma.fence", "moves before wgmma.wait_group", "barriers that are left"} == set(
        PRACTICES
    )


MAP_EDITS = [program for program in extras.programs() if program.name.startswith("tensormap_replace")]
COPIED_WORD = "@%p5 st.shared.b32 [%r3], %r4;"
# The map is copied by the first 16 lanes of its 32: 64 bytes. What lies behind was not written.
HALF = "setp.lt.and.u32 %p6, %r9, 16, %p5; @%p6 st.shared.b32 [%r3], %r4;"
# Other bytes lie behind.
OTHER = f"{COPIED_WORD} setp.ge.and.u32 %p6, %r9, 16, %p5; mov.b32 %r4, 0x5A5A5A5A; @%p6 st.shared.b32 [%r3], %r4;"


@pytest.mark.parametrize(("instead", "kind"), [(HALF, "uninitialised"), (OTHER, "undefined")], ids=["half", "other"])
@pytest.mark.parametrize("program", MAP_EDITS, ids=lambda program: program.name)
def test_half_a_tensor_map(program: Program, instead: str, kind: str) -> None:
    assert COPIED_WORD in program.body
    changed = dataclasses.replace(program, body=program.body.replace(COPIED_WORD, instead))
    assert simulate(changed, Options(rules="practice")).tobytes() == simulate(program, Options(rules="documents")).tobytes()
    with pytest.raises(SimulationError) as caught:
        simulate(changed, Options(rules="documents"))
    assert caught.value.kind == kind


PAST_CACHE: PracticeName = "loads and stores past the first cache"
FOR_NOBODY: PracticeName = "bytes announced for nobody"
EQUAL_LANES: PracticeName = "one store by equal lanes"
UNWRITTEN: PracticeName = "unwritten memory that does not matter"
# The first CTA waits for a count that others add to, and nothing in its loop says so but the operator.
COUNTED = """.version 9.0\n.target sm_90a\n.address_size 64
.entry k(.param .u64 count) { .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<4>;
ld.param.u64 %d1, [count]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra W;
red.relaxed.gpu.global.add.u32 [%d1], 1; ret; W: ld.global.cg.u32 %r3, [%d1]; add.u32 %r3, %r3, 1;
setp.ne.u32 %p2, %r3, %r2; @%p2 bra W; }"""


def test_loads_past_the_first_cache() -> None:
    result = sim.launch(COUNTED, grid=3, block=1, arguments=[np.zeros(1, np.uint32)], options=Options(rules="practice"))
    assert result.relied_on == [PAST_CACHE] and not result.findings
    with pytest.raises(SimulationError, match=r"ld.global.cg.u32 .* read it: nothing orders them") as caught:
        sim.launch(COUNTED, grid=3, block=1, arguments=[np.zeros(1, np.uint32)], options=Options(rules="documents"))
    assert caught.value.kind == "race"
    with pytest.raises(SimulationError, match="warps poll memory"):
        sim.launch(COUNTED, grid=1, block=1, arguments=[np.ones(1, np.uint32)], options=Options(rules="practice"))


# What was stored is loaded, and the columns are given back without a wait for the load.
NO_WAIT = """.version 9.0\n.target sm_100a\n.address_size 64
.entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %d<4>; .shared .align 4 .b32 base;
ld.param.u64 %d1, [out]; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [base], 32; ld.shared.b32 %r1, [base];
mov.b32 %r2, 7; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r2}; tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r1];
USED
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32; st.global.b32 [%d1], %r3; ret; }"""


def test_loads_that_are_used_and_not_waited_for() -> None:
    out = np.zeros(1, np.uint32)
    result = sim.launch(NO_WAIT.replace("USED", "st.global.b32 [%d1], %r3;"), block=32, arguments=[out])
    assert result.relied_on == ["registers before tcgen05.wait::ld"] and out[0] == 7
    (finding,) = result.findings
    assert finding.severity == "warn" and "no tcgen05.wait::ld stands between them, although the registers were used" in str(
        finding
    )
    with pytest.raises(SimulationError, match="no tcgen05.wait::ld stands between them "):
        sim.launch(NO_WAIT.replace("USED", ""), block=32, arguments=[out])


def test_tensor_memory_that_is_given_back_again() -> None:
    """By all warps of an epilogue, as in cuDNN's frontend: by then the columns may belong to another CTA."""
    again = NO_WAIT.replace("USED", "tcgen05.wait::ld.sync.aligned;").replace(
        "st.global.b32 [%d1]", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32; st.global.b32 [%d1]"
    )
    (finding,) = sim.launch(again, block=32, arguments=[np.zeros(1, np.uint32)]).findings
    assert (finding.check, finding.severity) == ("exit", "warn") and "given back before" in str(finding)
    with pytest.raises(SimulationError, match="given back before"):
        sim.launch(again, block=32, arguments=[np.zeros(1, np.uint32)], options=Options(rules="documents"))
    with pytest.raises(SimulationError, match="allocated is nothing"):
        sim.launch(again.replace("%r1, 32; st.global", "0x20, 32; st.global"), block=32, arguments=[np.zeros(1, np.uint32)])


WHOLE_WARP = """.version 8.6\n.target sm_90a\n.address_size 64
.entry k(.param .u64 out) .reqntid 32 { .reg .b32 %r<4>; .reg .b64 %d<3>; .shared .align 128 .b8 tile[128];
ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mov.b32 %r2, tile; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1;
fence.proxy.async.shared::cta; bar.warp.sync -1; STORE
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret; }"""


def test_a_store_by_a_whole_warp() -> None:
    store = WHOLE_WARP.replace("STORE", "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r2], 128;")
    out = np.zeros(32, np.uint32)
    result = sim.launch(store, arguments=[out])
    assert result.relied_on == [EQUAL_LANES] and not result.findings and (out == np.arange(32)).all()
    with pytest.raises(SimulationError, match="bulk store of warp 0 .*wrote it: nothing orders them"):
        sim.launch(store, arguments=[out], options=Options(rules="documents"))
    # A sum is made as often as it is asked for.
    add = WHOLE_WARP.replace("STORE", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [%r2], 128;")
    out[:] = 0
    assert sim.launch(add, arguments=[out]).relied_on == [] and (out == 32 * np.arange(32)).all()


def test_bytes_without_a_wait() -> None:
    announced = """.version 8.6\n.target sm_90a\n.address_size 64
    .entry k() .reqntid 1 { .shared .align 8 .b64 full; mbarrier.init.shared::cta.b64 [full], 1; BYTES ret; }"""
    more = announced.replace("BYTES", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 64;")
    assert sim.launch(more).relied_on == [FOR_NOBODY]
    with pytest.raises(SimulationError, match="ends in phase 0 with 64 bytes outstanding"):
        sim.launch(more, options=Options(rules="documents"))
    # Bytes that came and were not announced are another matter.
    fewer = announced.replace("BYTES", "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [full], 64;")
    with pytest.raises(SimulationError, match="ends in phase 0 with -64 bytes outstanding"):
        sim.launch(fewer)


# One thread copies a row of an array twice to one place, and stores what two places hold to one row.
TWICE = """.version 8.6\n.target sm_90a\n.address_size 64
.entry k(.param .align 64 .b8 map[128], .param .u64 a) .reqntid 1 { .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p;
.shared .align 128 .b8 tile[256]; .shared .align 8 .b64 full[2]; ld.param.u64 %d1, [a]; mov.b64 %d2, map; cvta.param.u64 %d2, %d2;
mov.b32 %r1, tile; mov.b32 %r2, full; mbarrier.init.shared::cta.b64 [%r2], 1; mbarrier.init.shared::cta.b64 [%r2+8], 1;
fence.proxy.async.shared::cta; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+8], 128; mov.b32 %r3, 0; COPIES
W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%r2+8], 0; @!%p bra W; LAST V: mbarrier.try_wait.parity.shared::cta.b64 %p, [%r2], 0;
@!%p bra V; STORES cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret; }"""
TENSOR_LOAD = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2, {%r3, {ROW}}], [%r2{BAR}];"
)
PLAIN_LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1+{ROW}], 128, [%r2{BAR}];"
PLAIN_STORE = "cp.async.bulk.global.shared::cta.bulk_group [%d1+{ROW}], [%r1], 128;"


def _twice(load: str, row: int, last: str = "", stores: str = "") -> sim.Result:
    loads = load.replace("{BAR}", "").replace("{ROW}", "0") + load.replace("{BAR}", "+8").replace("{ROW}", str(row))
    a = np.arange(256, dtype=np.float32).reshape(32, 8)
    text = TWICE.replace("COPIES", loads).replace("LAST", last).replace("STORES", stores)
    return sim.launch(text, arguments=[sim.TensorMapArgument.of(a, box=(4, 8)), a])


@pytest.mark.parametrize("load", [TENSOR_LOAD, PLAIN_LOAD], ids=["tensor", "bulk"])
def test_equal_copies(load: str) -> None:
    # The later one has arrived, so that it does not matter when the earlier one does.
    assert _twice(load, 0, "ld.shared.u32 %r3, [%r1];").relied_on == ["equal stores"]
    with pytest.raises(SimulationError, match="is still writing it: nothing orders them"):
        _twice(load, 16)
    stored = _twice(load, 0, stores=2 * PLAIN_STORE.replace("{ROW}", "0"))
    assert stored.relied_on == ["equal stores"] and not stored.findings
    other = PLAIN_STORE.replace("{ROW}", "0").replace("[%r1]", "[%r1+128]")
    zeros = "st.shared.v4.u32 [%r1+128], {%r3, %r3, %r3, %r3}; fence.proxy.async;"
    with pytest.raises(SimulationError, match="bulk store of warp 0 .*wrote it: nothing orders them"):
        _twice(load, 0, zeros, (PLAIN_STORE.replace("{ROW}", "0") + other).replace(", 128;", ", 16;"))


@pytest.mark.parametrize(("guard", "sums"), [("setp.eq.u32 %p1, %r1, 0; @%p1", 1), ("", 32)], ids=["one thread", "a whole warp"])
def test_a_reduction_by_a_whole_warp_is_told(guard: str, sums: int) -> None:
    """Each of the lanes adds the tile, which nobody wants."""
    reduce = f"{guard} cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [%r2], 128;"
    text = WHOLE_WARP.replace(".reg .b32", ".reg .pred %p<2>; .reg .b32", 1).replace("STORE", reduce)
    out = np.zeros(32, np.uint32)
    result = sim.launch(text, arguments=[out])
    assert (out == sums * np.arange(32)).all()
    assert {finding.check for finding in result.findings} == ({"lanes"} if sums > 1 else set())


# Each CTA of a pair allocates without a sign of the other one, and both meet before they give the memory back.
PAIR_ALLOCATES = """.version 8.8\n.target sm_100a\n.address_size 64
.entry k() .reqnctapercluster 2 {{ .reg .b32 %a, %r; .shared .align 4 .b32 place; mov.u32 %a, place;
  {before}
  tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%a], 32;
  ld.shared.b32 %r, [%a]; {between}
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r, 32; ret; }}"""


def test_allocations_of_a_pair_meet() -> None:
    early = PAIR_ALLOCATES.format(before="", between="")
    assert sim.launch(early, grid=2, block=32, options=Options(rules="practice")).relied_on == ["allocations of a pair meet"]
    with pytest.raises(SimulationError, match="no cluster barrier or other signal has shown that it runs"):
        sim.launch(early, grid=2, block=32, options=Options(rules="documents"))
    known = PAIR_ALLOCATES.format(before="barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", between="")
    assert sim.launch(known, grid=2, block=32, options=Options(rules="practice")).relied_on == []
    # It is the allocation alone that meets: its memory is no sign for other instructions.
    arrives = "mapa.shared::cluster.u32 %a, %a, 1; ld.shared::cluster.b32 %a, [%a];"
    with pytest.raises(SimulationError, match="no cluster barrier or other signal has shown that it runs"):
        sim.launch(PAIR_ALLOCATES.format(before="", between=arrives), grid=2, block=32, options=Options(rules="practice"))


# CTA 1: warp 0 reads a word and signals CTA 0, which then copies to CTA 1; warp 1 waits for that copy and overwrites the word.
READ_BEFORE_A_COPY = """.version 8.8\n.target sm_100a\n.address_size 64
.entry k() .reqnctapercluster 2 {{ .reg .b32 %r<8>; .reg .b64 %d<2>; .reg .pred %p<5>, %done;
  .shared .align 16 .b8 data[48]; .shared .align 8 .b64 bars[2];
  mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, %tid.x; mov.u32 %r2, data; mov.u32 %r3, bars;
  setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r0, 0; setp.eq.and.u32 %p2, %r1, 32, %p1;
  @%p0 mbarrier.init.shared::cta.b64 [%r3], 1; @%p0 mbarrier.init.shared::cta.b64 [%r3+8], 1;
  @%p0 st.shared.v4.b32 [%r2], {{%r1, %r1, %r1, %r1}}; @%p0 st.shared.b32 [%r2+32], %r1;
  fence.mbarrier_init.release.cluster; fence.proxy.async;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  setp.eq.and.u32 %p3, %r1, 0, !%p1; setp.eq.and.u32 %p4, %r1, 32, !%p1;
  @%p3 bra READ; @%p4 bra WRITE; @!%p2 bra END;
{wait}
  mapa.shared::cluster.u32 %r4, %r2, 1; mapa.shared::cluster.u32 %r5, %r3, 1; add.u32 %r4, %r4, 16; add.u32 %r5, %r5, 8;
  cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r4], [%r2], 16, [%r5];
  bra END;
READ: ld.shared.b32 %r6, [%r2+32];
  mapa.shared::cluster.u32 %r5, %r3, 0; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];
  bra END;
WRITE: mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3+8], 16;
AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %done, [%r3+8], 0; @!%done bra AGAIN;
  st.shared.b32 [%r2+32], %r1;
END: barrier.cluster.arrive; barrier.cluster.wait; ret; }}"""


def test_reads_before_another_ctas_copy() -> None:
    wait = "POLL: mbarrier.try_wait.parity.shared::cta.b64 %done, [%r3], 0; @!%done bra POLL;"
    ordered = READ_BEFORE_A_COPY.format(wait=wait)
    assert sim.launch(ordered, grid=2, block=64, options=Options(rules="practice")).relied_on == [
        "reads before another CTA's copy"
    ]
    with pytest.raises(SimulationError, match="race: st.shared.b32 .*read it: nothing orders them"):
        sim.launch(ordered, grid=2, block=64, options=Options(rules="documents"))
    with pytest.raises(SimulationError, match="race: st.shared.b32 .*read it: nothing orders them"):
        sim.launch(READ_BEFORE_A_COPY.format(wait=""), grid=2, block=64, options=Options(rules="practice"))
