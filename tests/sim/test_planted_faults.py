"""Each mistake is shown by the timings named, as an error that says who made it and where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from examples.catalogue import EXAMPLES, Case, compiled

from pipec.reference import trial_of
from pipec.runtime import LaunchOptions, launch
from pipec.sim import ArrayArgument, Options, SimulationError
from pipec.sim import launch as launch_ptx

from .faults import Edit, Line, both, change, drop, move, pass_at_once, repeat
from .handshake_ptx import HANDSHAKE
from .pair_ptx import pair_ptx
from .test_pair import run

TIMINGS = {"order": [Options("order")], "late": [Options("late")], "random": [Options("random", seed=s) for s in range(8)]}


@dataclass(frozen=True)
class Fault:
    """`shown`: timing -> kind of error (random: of one of the seeds); other timings may miss it.

    `role`, `pipeline`: whom the report names (None: either, or nobody).
    """

    kernel: str
    edit: Edit
    shown: dict[str, str]
    role: str | None
    pipeline: str | None


def everywhere(kind: str) -> dict[str, str]:
    return {"order": kind, "late": kind, "random": "some seed"}


FULL_WAIT = Line("try_wait", "input.consume()")
EMPTY_WAIT = Line("try_wait", "input.produce()")
ACCUMULATOR_WAIT = Line("try_wait", "output.consume()")
FREE_ACCUMULATOR_WAIT = Line("try_wait", "output.produce()")
GIVE_BACK = Line("tcgen05.commit", "input.consume()")
HAND_OVER = Line("tcgen05.commit", "output.produce()")
FREE = Line("mbarrier.arrive", "output.consume()")
LOAD_ACCUMULATOR = Line("tcgen05.ld", "store(d[")

FAULTS = {
    # Where the load comes second the report has its stage, and the role that did not wait.
    "no wait for a full stage": Fault("gemm", pass_at_once(FULL_WAIT), everywhere("race"), "mma", None),
    "no wait for an empty stage": Fault("gemm", pass_at_once(EMPTY_WAIT), everywhere("arrive_underflow"), "load", "input"),
    "no wait for the accumulator": Fault("gemm", pass_at_once(ACCUMULATOR_WAIT), everywhere("race"), "epilogue", None),
    "no wait for a free accumulator": Fault("gemm", pass_at_once(FREE_ACCUMULATOR_WAIT), everywhere("race"), None, "output"),
    "stage never given back": Fault("gemm", drop(GIVE_BACK), everywhere("deadlock"), "load", "input"),
    "accumulator never handed over": Fault("gemm", drop(HAND_OVER), everywhere("deadlock"), "epilogue", "output"),
    "accumulator never freed": Fault("gemm", drop(FREE), everywhere("deadlock"), "mma", "output"),
    "stage given back before it is read": Fault(
        "gemm", move(GIVE_BACK, Line("tcgen05.mma", "mma(acc")), everywhere("race"), "load", "input"
    ),
    "accumulator freed before it is read": Fault("gemm", move(FREE, ACCUMULATOR_WAIT), everywhere("race"), "mma", "output"),
    "accumulator handed over before it is written": Fault(
        "gemm",
        move(HAND_OVER, Line("fence::after", "output.produce()", 1)),
        everywhere("race") | {"order": "undefined"},
        "epilogue",
        "output",
    ),
    "arrives twice": Fault("gemm", repeat(FREE), everywhere("undefined"), None, "output"),
    "commits twice": Fault(
        "gemm", repeat(GIVE_BACK), {"order": "arrive_underflow", "late": "undefined", "random": "some seed"}, "load", "input"
    ),
    # Of two stages, the phase flips with the stage that is left.
    "parity never flips": Fault(
        "gemm", change(Line("xor.b32", "34 17\t// for k"), r"%r\d+;", "0;"), everywhere("race"), None, "input"
    ),
    "producer starts with the other parity": Fault(
        "gemm",
        change(Line("mov.b32.*, 1;", "25 9\t// for t"), "1;", "0;"),
        everywhere("deadlock"),
        "load",
        "input",
    ),
    "too few bytes expected": Fault(
        "gemm",
        change(Line("mov.b32 .*16384;", "input.produce()"), "16384", "8192"),
        {"order": "race", "late": "race", "random": "some seed"},
        "mma",
        "input",
    ),
    "too many bytes expected": Fault(
        "gemm", change(Line("mov.b32 .*16384;", "input.produce()"), "16384", "16400"), everywhere("deadlock"), "mma", "input"
    ),
    "a load forgotten": Fault("gemm", drop(Line("cp.async.bulk.tensor", "tma.load(s.b")), everywhere("deadlock"), "mma", "input"),
    "exit before the stores are done": Fault("gemm", drop(Line("wait_group.*0;")), everywhere("undefined"), "epilogue", None),
    "staging rewritten under a store": Fault("gemm", drop(Line("wait_group.read")), everywhere("race"), "epilogue", None),
    "no fence.proxy.async": Fault("gemm", drop(Line("fence.proxy.async", "store(d[")), everywhere("race"), "epilogue", None),
    "no barrier before the store": Fault(
        "gemm", drop(Line("bar.sync.*128", "store(d[", 1)), everywhere("race"), "epilogue", None
    ),
    "no tcgen05.wait::ld": Fault("gemm", drop(Line("wait::ld")), everywhere("race"), None, None),
    "no tcgen05.wait::st": Fault("empty gemm", drop(Line("wait::st")), everywhere("race"), "epilogue", "output"),
    "no fence before the hand-over": Fault(
        "gemm", drop(Line("fence::before", "output.consume()")), everywhere("race"), "mma", "output"
    ),
    "no fence after the wait": Fault(
        "gemm", drop(Line("fence::after", "output.consume()", 1)), everywhere("race"), "epilogue", "output"
    ),
    "no fence after the wait for a free accumulator": Fault(
        "gemm",
        drop(Line("fence::after", "output.produce()", 1)),
        everywhere("race"),
        "mma",
        "output",
    ),
    "tensor memory given back too early": Fault(
        "gemm", drop(Line(r"bar.sync\s+0;", "gemm_persistent", 1)), everywhere("race"), "mma", None
    ),
    "tensor memory kept": Fault("gemm", drop(Line("tcgen05.dealloc")), everywhere("leaked_tmem"), None, None),
    "barriers and the address of tensor memory not ready": Fault(
        "gemm", drop(Line(r"bar.sync\s+0;")), everywhere("uninitialised"), None, None
    ),
    "pair: tensor memory given back without a cluster barrier": Fault(
        "pair",
        both(drop(Line("barrier.cluster.arrive", "", 2)), drop(Line("barrier.cluster.wait", "", 2))),
        everywhere("race"),
        None,
        None,
    ),
    "pair: no cluster barrier before the work": Fault(
        "pair",
        both(drop(Line("barrier.cluster.arrive", "", 1)), drop(Line("barrier.cluster.wait", "", 1))),
        everywhere("race"),
        None,
        None,
    ),
    "pair: allocates before its peer runs": Fault(
        "pair",
        both(drop(Line("barrier.cluster.arrive")), drop(Line("barrier.cluster.wait"))),
        everywhere("undefined"),
        "mma",
        None,
    ),
    "pair: commit to one CTA only": Fault("pair", change(Line("mov.u16 .*3;"), "3;", "1;"), everywhere("deadlock"), None, None),
    "pair: commit to the other CTA only": Fault(
        "pair", change(Line("mov.u16 .*3;"), "3;", "2;"), everywhere("deadlock"), None, None
    ),
    "pair: bytes of one CTA": Fault(
        "pair", change(Line("expect_tx"), "65536", "32768"), {"order": "race", "late": "race", "random": "some seed"}, None, None
    ),
    "pair: each CTA signals itself": Fault("pair", drop(Line("0xFEFFFFFF")), everywhere("deadlock"), None, None),
    "wgmma: no wait for a full stage": Fault("hopper", pass_at_once(FULL_WAIT), everywhere("race"), None, "input"),
    "wgmma: stage given back before it is read": Fault(
        "hopper", change(Line("wgmma.wait_group.*1;"), "1;", "7;"), everywhere("race"), None, "input"
    ),
    "wgmma: accumulator read too early": Fault("hopper", drop(Line("wgmma.wait_group.*0;")), everywhere("race"), "compute", None),
    "wgmma: no fence.proxy.async": Fault("hopper", drop(Line("fence.proxy.async")), everywhere("race"), "compute", None),
    "exit before the peer's answer": Fault(
        "handshake",
        both(drop(Line("cluster.arrive", "", 1)), drop(Line("cluster.wait", "", 1))),
        everywhere("undefined"),
        "exchange",
        "box",
    ),
    "the peer is not signalled": Fault("handshake", drop(Line("st.async")), everywhere("deadlock"), "exchange", "box"),
}


GEMM = Case(EXAMPLES / "gemm_persistent.pipe", (("BM", "64"), ("BN", "64"), ("STAGES", "2")))
HOPPER = Case(
    EXAMPLES / "gemm_sm90.pipe", (("WARPS", "4"), ("BM", "64"), ("BN", "24"), ("BK", "16"), ("STAGES", "2"), ("OUT", "f32"))
)


def run_example(case: Case, sizes: dict[str, float], edit: Edit, options: Options) -> str:
    state = compiled(case)
    (plan,) = state.plans or []
    ptx = "\n".join(edit((state.ptx or "").splitlines())) + "\n"
    trial = trial_of(plan, sizes, seed=1)
    launch(plan.interface, ptx, trial.arguments, device="sim", options=LaunchOptions(options, multiprocessors=1))
    return "right" if all(outcome.passed for outcome in trial.judged()) else "result"


def run_pair(edit: Edit, options: Options) -> str:
    result, expected = run("\n".join(edit(pair_ptx().splitlines())) + "\n", options, k=320)
    return "right" if np.array_equal(result, expected) else "result"


def run_handshake(edit: Edit, options: Options) -> str:
    out = np.zeros(1, np.uint32)
    text = "\n".join(edit(HANDSHAKE.splitlines())) + "\n"
    launch_ptx(text, grid=2, dynamic_smem=32, arguments=[ArrayArgument(out)], options=options)
    return "right" if out[0] == 42 else "result"


KERNELS = {
    "gemm": partial(run_example, GEMM, {"M": 192, "N": 128, "K": 192}),
    "empty gemm": partial(run_example, GEMM, {"M": 192, "N": 128, "K": 0}),
    "hopper": partial(run_example, HOPPER, {"M": 64, "N": 48, "K": 96}),
    "pair": run_pair,
    "handshake": run_handshake,
}


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_kernels_are_right(kernel: str, timing: str) -> None:
    assert KERNELS[kernel](lambda lines: lines, TIMINGS[timing][0]) == "right"


@pytest.mark.sample(0.5)
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_shown(name: str) -> None:
    fault = FAULTS[name]
    assert fault.shown
    for timing, kind in fault.shown.items():
        error = _first_error(fault, TIMINGS[timing])
        assert error is not None, f"{timing} does not show it"
        assert kind in (error.kind, "some seed"), f"{timing}: {error}"
        assert (fault.role, fault.pipeline) in _named(error) | {(None, None)}, f"{timing}: {error}"


def _first_error(fault: Fault, options: list[Options]) -> SimulationError | None:
    for one in options:
        try:
            assert KERNELS[fault.kernel](fault.edit, one) in ("right", "result")
        except SimulationError as error:
            return error
    return None


def _named(error: SimulationError) -> set[tuple[str | None, str | None]]:
    """(role, pipeline), and each alone, of everybody the report names; whoever has a pipeline has a stage."""
    entries = error.details["blocked"] if error.kind == "deadlock" else [error.details, error.details.get("other", {})]
    named = {(entry.get("role"), entry.get("pipeline")) for entry in entries}
    assert all(entry.get("pipeline") is None or isinstance(entry["stage"], int) for entry in entries)
    return named | {(role, None) for role, _ in named} | {(None, pipeline) for _, pipeline in named}


def test_the_table_of_the_documentation() -> None:
    """docs/simulator.md lists every fault with the timings that show it."""
    text = (EXAMPLES.parent / "docs" / "simulator.md").read_text(encoding="utf-8")
    missing = [row for row in map(_row, FAULTS) if row not in text]
    assert missing == []


def _row(name: str) -> str:
    shown = FAULTS[name].shown
    return f"| {name} | " + " | ".join(shown.get(timing, "") for timing in TIMINGS) + " |"
