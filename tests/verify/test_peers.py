"""What CTAs of a cluster take for granted of each other: that barriers are initialised when a peer signals them, and that a CTA is still
there when it is signalled. Usual forms, and neighbours of which it is an assumption."""

import re
from pathlib import Path

import numpy as np
import pytest

from pipec.protocol.judge import judge
from pipec.sim import Options, SimulationError, launch
from pipec.verify.accept import accept
from pipec.verify.checker.configuration import Refused
from pipec.verify.document import Proof, document_of
from pipec.verify.network import Unreadable
from pipec.verify.reader.read import read

# One thread of each CTA signals a barrier of the other one, where a warp waits.
KERNEL = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64
.explicitcluster
.reqnctapercluster 2, 1, 1
{{
  .reg .pred %p<9>; .reg .b32 %r<9>;
  .shared .align 8 .b64 bar[1]; .shared .align 4 .b32 word;
  mov.u32 %r0, %tid.x;
  setp.ne.u32 %p0, %r0, 0;
  setp.ge.u32 %p1, %r0, 32;
  {begin}
  mov.u32 %r1, %cluster_ctarank;
  xor.b32 %r1, %r1, 1;
  mov.u32 %r2, bar;
  mapa.shared::cluster.u32 %r3, %r2, %r1;
  mov.u32 %r4, word;
  mapa.shared::cluster.u32 %r4, %r4, %r1;
  @%p1 bra WAITS;
  @%p0 bra END;
  {signal}
  bra END;
WAITS:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
  @!%p2 bra WAITS;
END:
  {end}
  ret;
}}
"""
MAKE, ARRIVE, WAIT = "mbarrier.init.shared::cta.b64 [bar], 1;", "barrier.cluster.arrive;", "barrier.cluster.wait;"
FENCE, RELAXED = "fence.mbarrier_init.release.cluster;", "barrier.cluster.arrive.relaxed;"
SIGNAL = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];"
BEGIN, END = f"@%p0 bra READY;\n {MAKE} {FENCE} READY:\n {RELAXED} {WAIT}", f"{ARRIVE} {WAIT}"
STORE = "st.shared::cluster.b32 [%r4], 1;"
LATER = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r4], 1, [%r3];"

RIGHT = {
    "the usual form": (BEGIN, SIGNAL, END),
    "without a fence": (BEGIN.replace(FENCE, "").replace(RELAXED, ARRIVE), SIGNAL, END),
    "a fence for all data": (BEGIN.replace(FENCE, "fence.acq_rel.cluster;"), SIGNAL, END),
    "a fence with the predicate of what it publishes": (f"@!%p0 {MAKE} @!%p0 {FENCE} {RELAXED} {WAIT}", SIGNAL, END),
    "a store": (BEGIN, STORE + SIGNAL, END),
    "twice at the end": (BEGIN, SIGNAL, END + END),
    "twice at the begin": (BEGIN + END, SIGNAL, END),
}
# With the assumption.
OTHERS = {
    "relaxed, without a fence": ((BEGIN.replace(FENCE, ""), SIGNAL, END), "fresh barriers"),
    "a fence for others": ((BEGIN.replace(FENCE, "fence.acq_rel.cta;"), SIGNAL, END), "fresh barriers"),
    "a fence for copies": ((BEGIN.replace(FENCE, "fence.proxy.async.shared::cta;"), SIGNAL, END), "fresh barriers"),
    "a fence in other threads": ((f"@!%p0 {MAKE} @%p0 {FENCE} {RELAXED} {WAIT}", SIGNAL, END), "fresh barriers"),
    "a fence in front": ((BEGIN.replace(f"{MAKE} {FENCE}", f"{FENCE} {MAKE}"), SIGNAL, END), "fresh barriers"),
    "no meeting at the end": ((BEGIN, SIGNAL, ""), "peers"),
    "relaxed at the end": ((BEGIN, SIGNAL, END.replace(ARRIVE, RELAXED)), "peers"),
    "no wait at the end": ((BEGIN, SIGNAL, ARRIVE), "peers"),
    "some threads end before": ((BEGIN, SIGNAL, f"@%p0 bra GONE; {END} GONE:"), "peers"),
    "one thread ends before": ((BEGIN, SIGNAL, f"@!%p0 bra GONE; {END} GONE:"), "peers"),
    "a store behind the last meeting": ((BEGIN, SIGNAL, END + STORE), "stored"),
    "what comes later": ((BEGIN, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4;" + LATER, END), "peers"),
}


WAITED = """  mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
  @!%p2 bra WAITS;
"""
EXPECTS = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4;"
AGAIN = "mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], {}; @!%p2 bra {};"
# By what the first thread does, and the second warp: what is assumed once it is proved that the last signal has been waited for.
PROVED = {
    "a signal that is waited for": (SIGNAL, WAITED, []),
    "bytes that are waited for": (EXPECTS + LATER, WAITED, []),
    "bytes that nobody waits for": (EXPECTS + LATER, "", ["peers"]),
    "a signal that nobody waits for": (SIGNAL, "", ["peers"]),
    "only looked at": (EXPECTS + LATER, "mbarrier.test_wait.parity.shared::cta.b64 %p2, [bar], 0;", ["peers"]),
    "waited for by the thread that signals": (f"{EXPECTS} {LATER} FIRST: {AGAIN.format(0, 'FIRST')}", "", []),
    "a store, too": (f"{EXPECTS} {STORE} {LATER}", WAITED, ["stored"]),
}


# What the first thread does, while another one signals: nothing that a barrier counts, and what is assumed then.
UNCOUNTED = {
    "no bytes are announced": "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r3], 0;",
    "no bytes are copied": "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r4], [word], 0, [%r3];",
}


REFUSED = {
    "only the block has met": (BEGIN.replace(f"{RELAXED} {WAIT}", "bar.sync 0;"), SIGNAL, END),
    "a signal before the wait": (BEGIN.replace(WAIT, "bar.sync 0;"), SIGNAL, f"{WAIT} {END}"),
}


def text(begin: str, signal: str, end: str) -> str:
    return KERNEL.format(begin=begin, signal=signal, end=end)


def assumed(ptx: str) -> list[str]:
    return [one.kind for one in read(ptx).assumptions]


@pytest.mark.parametrize("parts", RIGHT.values(), ids=RIGHT)
def test_what_peers_see_to(parts: tuple[str, str, str]) -> None:
    assert assumed(text(*parts)) == []
    assert not happens(text(*parts))


@pytest.mark.parametrize(("parts", "kind"), OTHERS.values(), ids=OTHERS)
def test_what_is_assumed_of_peers(parts: tuple[str, str, str], kind: str) -> None:
    assert assumed(text(*parts)) == [kind]


@pytest.mark.parametrize(("signal", "waited", "kinds"), PROVED.values(), ids=PROVED)
def test_what_a_proof_shows_of_peers(signal: str, waited: str, kinds: list[str]) -> None:
    ptx = text(BEGIN, signal, "")
    assert ptx.count(WAITED) == 1
    found = judge(ptx.replace(WAITED, waited), "k")
    assert found.certificate is not None and found.network is not None, found.why
    assert [one.kind for one in found.network.assumptions] == kinds
    document = document_of(ptx, [Proof(found.certificate, found.network.assumed)])
    assert accept(ptx.replace(WAITED, waited), document.proofs[0]).assumptions == tuple(map(str, found.network.assumptions))
    # Whoever states less than is needed, or more, is refused.
    with pytest.raises(Refused, match="assumptions"):
        accept(ptx.replace(WAITED, waited), Proof(found.certificate, ("peers: 1",) if not kinds else ()))


@pytest.mark.parametrize("first", [*UNCOUNTED.values(), ""], ids=[*UNCOUNTED, "nothing"])
def test_a_signal_that_is_not_counted(first: str) -> None:
    ptx = (
        text(BEGIN, first, "")
        .replace("  @%p0 bra END;", "  @%p0 bra SECOND;")
        .replace(".align 4 .b32 word", ".align 16 .b32 word")
    )
    ptx = ptx.replace("END:", f"bra END; SECOND: setp.ne.u32 %p4, %r0, 1; @%p4 bra END;\n {SIGNAL}\nEND:")
    found = judge(ptx, "k")
    assert found.certificate is not None and found.network is not None, found.why
    assert [one.kind for one in found.network.assumptions] == (["peers"] if first else [])


def test_an_example_without_one_of_its_waits() -> None:
    """Each wait in turn only looks: those at the end make the CTA outlive its peers' signals, and without others nothing is proved."""
    name = "gemm_2cta"
    ptx = (Path(__file__).parents[1] / "golden" / f"{name}.ptx").read_text(encoding="utf-8")
    loops = re.findall(r"mbarrier\.try_wait\S+ (%p\d+), .*\n\s*not\.pred\s+(%p\d+), \1;\n(\s*@\2 bra\s.*;\n)", ptx)
    found = [judge(ptx.replace(branch, "\n"), name) for _, _, branch in loops]
    kinds = [{one.kind for one in each.network.assumptions} for each in found if each.certificate and each.network]
    assert len(kinds) == 2 < len(loops) and all("peers" in each for each in kinds)
    whole = judge(ptx, name).network
    assert whole is not None and "peers" not in {one.kind for one in whole.assumptions}


@pytest.mark.parametrize("name", [name for name, (_, kind) in OTHERS.items() if kind == "fresh barriers"])
def test_the_simulator_finds_barriers_that_peers_may_not_see(name: str) -> None:
    """Where it looks at who publishes them: the one that it takes for published needs the threads of a warp in order."""
    assert happens(text(*OTHERS[name][0])) == ("" if name == "a fence in other threads" else "race")


@pytest.mark.parametrize("parts", REFUSED.values(), ids=REFUSED)
def test_a_signal_to_a_barrier_that_may_not_be_there_is_refused(parts: tuple[str, str, str]) -> None:
    with pytest.raises(Unreadable, match="the barrier may not be ready yet"):
        read(text(*parts))
    assert happens(text(*parts)) == "undefined"


def happens(ptx: str) -> str:
    """What the simulator finds in one of several orders."""
    for seed in range(8):
        options = Options("random", seed, 5000, trace=False, rules="documents")
        try:
            launch(ptx, "k", grid=2, arguments=(np.uint32(0),), options=options)
        except SimulationError as error:
            return error.kind
    return ""
