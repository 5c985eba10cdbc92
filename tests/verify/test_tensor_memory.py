"""Tensor memory that is asked for and given back: right texts, and neighbours that PTX does not define, which the simulator finds."""

import numpy as np
import pytest

from pipec.protocol.judge import judge
from pipec.sim import Options, SimulationError, launch

KERNEL = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64
{cluster}{{
  .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
  .shared .align 4 .b32 one; .shared .align 4 .b32 two;
  mov.u32 %r0, %tid.x;
  setp.ge.u32 %p0, %r0, 32;
  {begin}
  bar.sync 0;
  {middle}
  bar.sync 0;
  {end}
  ret;
}}
"""
PERMIT = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
LOAD = "ld.shared.b32 %r5, [one];"


def ask(columns: int = 64, at: str = "one", group: int = 1) -> str:
    return f"tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [{at}], {columns};"


def give(columns: int = 64, address: str = "%r5", group: int = 1) -> str:
    return f"tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 {address}, {columns};"


def first(text: str) -> str:
    """By the first warp alone."""
    label = f"L{abs(hash(text))}"
    return f"@%p0 bra {label}; {text} {label}:"


def second(text: str) -> str:
    return first(text).replace("@%p0", "@!%p0")


def text(begin: str, middle: str, end: str, cluster: int = 0) -> str:
    stated = f".reqnctapercluster {cluster}\n" if cluster else ""
    # Nobody may use the other CTA of a pair before it runs.
    runs = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; " if cluster else ""
    return KERNEL.format(begin=runs + begin, middle=middle, end=end, cluster=stated)


def proved(ptx: str) -> bool:
    return judge(ptx, "k").certificate is not None


def happens(ptx: str, blocks: int = 1) -> str:
    for seed in range(8):
        try:
            launch(
                ptx,
                "k",
                grid=blocks,
                arguments=(np.uint32(0),),
                options=Options("random", seed, 5000, trace=False, rules="documents"),
            )
        except SimulationError as error:
            return error.kind
    return ""


def store(thread: int = 0, at: str = "one") -> str:
    """By one thread."""
    return f"setp.eq.u32 %p1, %r0, {thread}; @%p1 st.shared.b32 [{at}], 7;"


ASK, GIVE = first(ask()), first(give())
BOTH = ask() + ask(32, "two")
RIGHT = {
    "by the same warp": (ASK, LOAD, GIVE),
    "by another warp": (ASK, LOAD, second(give())),
    "loaded by the warp that asks": (first(ask() + LOAD), "", GIVE),
    "from one lane": (ASK, f"{LOAD} shfl.sync.idx.b32 %r5, %r5, 0, 31, -1;", GIVE),
    "through another register": (ASK, f"{LOAD} mov.b32 %r6, %r5;", first(give(address="%r6"))),
    "in two parts": (first(BOTH), f"{LOAD} ld.shared.b32 %r6, [two];", first(give() + give(32, "%r6"))),
    "all of it": (first(ask(512)), "mov.b32 %r5, 0;", first(give(512))),
    "by two warps, more at first": (
        first(ask(128)),
        f"{LOAD} {second(ask(64, 'two'))}",
        f"ld.shared.b32 %r6, [two]; {first(give(128) + give(64, '%r6'))}",
    ),
    "by a generic address": (
        first(f"mov.u64 %rd1, one; cvta.shared.u64 %rd2, %rd1; {ask(at='%rd2').replace('.shared::cta', '')}"),
        LOAD,
        GIVE,
    ),
    "with a permit": (first(ask() + PERMIT), LOAD, GIVE),
    "a store beside the address": (ASK, store(at="two") + LOAD, GIVE),
    "a store at the place of the address before it is asked for": (store(40), ASK, LOAD + GIVE),
    "a store in front of the request": (first(store() + ask()), LOAD, GIVE),
    "a store when the address has been loaded": (ASK, LOAD, store(40) + GIVE),
    "with a permit that another warp gives up behind a meeting": (ASK, LOAD + second(PERMIT), GIVE),
}
WRONG = {
    "an address that is overwritten": (ASK, store() + f"bar.sync 0; {LOAD}", GIVE),
    "an address that is overwritten by another warp": (ASK, store(40) + f"bar.sync 0; {LOAD}", GIVE),
    "an address that is overwritten while it is put there": (ASK + store(40), LOAD, GIVE),
    "an address that is overwritten while it is loaded": (ASK, LOAD + store(40), GIVE),
    "an address to which something is added": (ASK, f"mov.b32 %r7, one; red.shared.add.u32 [%r7], 32; bar.sync 0; {LOAD}", GIVE),
    "an address that is part of what is overwritten": (
        ASK,
        f"mov.b32 %r7, one; st.shared.b8 [%r7+2], 9; bar.sync 0; {LOAD}",
        GIVE,
    ),
    "another address": (ASK, "mov.b32 %r5, 7;", GIVE),
    "an address within": (ASK, f"{LOAD} add.u32 %r5, %r5, 32;", GIVE),
    "another place": (ASK, "ld.shared.b32 %r5, [two];", GIVE),
    "one part twice": (first(BOTH.replace("32", "64")), LOAD, first(give() + give())),
    "two addresses in one place": (first(ask() + ask()), LOAD, first(give() + give())),
    "other columns": (first(BOTH), f"{LOAD} ld.shared.b32 %r6, [two];", first(give(32) + give(64, "%r6"))),
    "before it is asked for": (first(LOAD + give() + ask()), "", ""),
    "loaded before it is asked for": (LOAD + ASK, "", GIVE),
    "by a warp that has not met the one that asks": (ASK + second(LOAD + give()), "", ""),
    "by a warp that has met the one that asks before": ("", first(ask()) + LOAD + second(give()), ""),
    "loaded before another warp asks for it": ("", LOAD + first(ask()), second(give())),
    "all of it, before it is asked for": (first(f"mov.b32 %r5, 0; {give(512)} {ask(512)}"), "", ""),
    "all of it, before another warp asks for it": (f"mov.b32 %r5, 0; {second(give(512))} {first(ask(512))}", "", ""),
    "more than before": (first(ask() + ask(128, "two")), f"{LOAD} ld.shared.b32 %r6, [two];", first(give() + give(128, "%r6"))),
    "more than another warp before": (
        ASK,
        f"{LOAD} {second(ask(128, 'two'))}",
        f"ld.shared.b32 %r6, [two]; {first(give() + give(128, '%r6'))}",
    ),
    "asked for behind the permit": (first(PERMIT + ask()), LOAD, GIVE),
}


@pytest.mark.parametrize("parts", RIGHT.values(), ids=RIGHT)
def test_what_is_asked_for_is_given_back(parts: tuple[str, str, str]) -> None:
    ptx = text(*parts)
    assert proved(ptx)
    assert not happens(ptx)


@pytest.mark.parametrize("parts", WRONG.values(), ids=WRONG)
def test_something_else_is_given_back(parts: tuple[str, str, str]) -> None:
    ptx = text(*parts)
    assert not proved(ptx)
    assert happens(ptx)


@pytest.mark.parametrize(
    ("place", "bytes_", "right"), [("tile", 16, True), ("tile", 32, False), ("tile+16", 16, False), ("tile+32", 16, True)]
)
def test_a_copy_over_an_address(place: str, bytes_: int, right: bool) -> None:
    """It is 28 bytes behind the begin of the tile."""
    begin = first(f"setp.ne.u32 %p1, %r0, 0; @%p1 bra READY; mbarrier.init.shared::cta.b64 [bar], 1; READY: {ask(at='tile+28')}")
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    middle = (
        f"ld.param.u64 %rd1, [n]; setp.ne.u32 %p1, %r0, 0; @%p1 bra WAIT; "
        f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {bytes_}; {copy} [{place}], [%rd1], {bytes_}, [bar]; "
        "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra WAIT; "
    )
    ptx = text(begin, middle + LOAD.replace("one", "tile+28"), GIVE).replace(".param .u32 n", ".param .u64 n")
    assert (
        proved(ptx.replace(".shared .align 4 .b32 one;", ".shared .align 8 .b64 bar; .shared .align 16 .b8 tile[64];")) is right
    )


def test_the_first_column_is_known_of_all_columns_only() -> None:
    """Other CTAs on the multiprocessor may have it."""
    assert not proved(text(first(ask(256)), "mov.b32 %r5, 0;", first(give(256))))
    assert not proved(text(first(ask(512)), LOAD, first(give(512) + "mov.b32 %r5, 0;" + give(512))))


def test_a_permit_that_another_warp_gives_up() -> None:
    """In some order it comes first."""
    ptx = text(ASK + second(PERMIT), LOAD, GIVE)
    assert not proved(ptx)
    assert happens(ptx) == "undefined"


@pytest.mark.parametrize(("cluster", "right"), [(0, False), (1, False), (2, True), (3, False), (4, True)])
def test_pairs_of_ctas(cluster: int, right: bool) -> None:
    ptx = text(first(ask(group=2)), LOAD, first(give(group=2)), cluster)
    assert proved(ptx) is right
    assert (not happens(ptx, max(cluster, 1))) is right


@pytest.mark.parametrize(
    "parts", [(ask(group=2), give()), (ask(), give(group=2)), (ask() + PERMIT.replace("::1", "::2"), give())]
)
def test_all_instructions_are_for_as_many_ctas(parts: tuple[str, str]) -> None:
    ptx = text(first(parts[0]), LOAD, first(parts[1]), 2)
    assert not proved(ptx)
    assert happens(ptx, 2) == "undefined"
