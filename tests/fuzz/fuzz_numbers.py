"""Random arithmetic on parameters decides who arrives at a barrier: the reader makes of it what the simulator does."""

import random
import re

import numpy as np
from fuzz.number_texts import EDGES, WIDTHS, Numbers
from verify.interpret import holds

from pipec.protocol.refuting.unfold import unfolded
from pipec.sim import Options, launch
from pipec.verify.network import Arrive, End, Network, Unreadable
from pipec.verify.network import Test as Branch
from pipec.verify.reader.readings import readings_of

COUNT = 5000
_DECISIONS = 4
_FOLDED = re.compile("[0-9a-f]{64}")
_TYPES = ("u32", "s32", "b32", "u32", "s32", "u64", "s64", "b64", "u16", "s16", "u8", "s8")
_KERNEL = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k({parameters}, .param .u64 out)
.reqntid 1
{{
  .reg .pred %p<200>; .reg .b16 %h<200>; .reg .b32 %r<200>; .reg .b64 %d<200>;
  .reg .b32 %base, %word; .reg .b64 %out;
  .shared .align 8 .b64 bar[{decisions}];
  mov.u32 %base, bar;
{begins}
  bar.sync 0;
  ld.param.u64 %out, [out];
{body}
{ends}
  ret;
}}
"""


def attempt(draw: random.Random) -> str | None:
    types = [draw.choice(_TYPES) for _ in range(draw.choice((1, 2, 3)))]
    text = Numbers(draw)
    for at, kind in enumerate(types):
        bits = int(kind[1:])
        width = draw.choice([one for one in WIDTHS if one >= bits]) if draw.random() < 0.3 else max(bits, 16)
        text.put(f"ld.param.{draw.choice((kind[0], *'usb'))}{bits} #, [p{at}];", width)
    for _ in range(draw.choice((3, 6, 10, 15))):
        text.step()
    while len(text.made[1]) < _DECISIONS:
        text.compared()
    ptx = _text(types, text)
    networks = _networks(ptx)
    for _ in range(2 if networks else 0):
        given = [_drawn(draw, int(kind[1:])) for kind in types]
        out = np.zeros(_DECISIONS, np.uint32)
        numbers = [np.dtype(f"uint{kind[1:]}").type(value) for kind, value in zip(types, given, strict=True)]
        launch(ptx, "k", grid=1, arguments=(*numbers, out), options=Options(trace=False))
        said = {f"p{at}": _signed(value, kind) for at, (value, kind) in enumerate(zip(given, types, strict=True))}
        for network in networks:
            found = _decided(network, said)
            if found is not None and found != out.tolist():
                return f"// {said}: {found}, not {out.tolist()}\n{ptx}"
    return None


def _networks(ptx: str) -> list[Network]:
    """Of all readings, but those that have folded a number so large that it stays so."""
    try:
        found = [unfolded(reading.network, reading.arithmetic.folds) for reading in readings_of(ptx, "k")]
    except Unreadable as why:
        assert "the reader failed" not in why.why, ptx
        return []
    return [network for network in found if not _FOLDED.search(repr(network.processes))]


def _text(types: list[str], text: Numbers) -> str:
    asked = enumerate(text.made[1][-_DECISIONS:])
    return _KERNEL.format(
        parameters=", ".join(f".param .{kind} p{at}" for at, kind in enumerate(types)),
        decisions=_DECISIONS,
        begins="\n".join(f"  mbarrier.init.shared.b64 [%base+{8 * at}], 1;" for at in range(_DECISIONS)),
        body="\n".join(f"  {line}" for line in text.lines),
        ends="\n".join(
            f"  @!{one} bra S{at};\n  mbarrier.arrive.shared.b64 _, [%base+{8 * at}];\nS{at}:\n"
            f"  selp.b32 %word, 1, 0, {one};\n  st.global.b32 [%out+{4 * at}], %word;"
            for at, one in asked
        ),
    )


def _drawn(draw: random.Random, bits: int) -> int:
    return draw.choice((draw.choice(EDGES), draw.getrandbits(bits), draw.randrange(20), -draw.randrange(20))) & (1 << bits) - 1


def _signed(value: int, kind: str) -> int:
    """As the reader takes a parameter: without a sign if its type says so."""
    bits = int(kind[1:])
    return value - (1 << bits) if kind[0] != "u" and value >> bits - 1 else value


def _decided(network: Network, sizes: dict[str, int]) -> list[int] | None:
    """Where the process arrives; None if what the network requires on its way does not hold."""
    (process,) = network.processes
    places = {ring: 0 for ring in range(len(network.rings)) if network.rings[ring].kind == "mbarrier"}
    first = min(network.rings[ring].instances[0] for ring in places)
    found, at = [0] * _DECISIONS, process.start
    while not isinstance(action := process.states[at].action, End):
        if isinstance(action, Branch):
            edge = action.yes if holds(action.condition, sizes) else action.no
        else:
            edge = action.edge
            if isinstance(action, Arrive) and action.use.ring in places:
                found[(network.rings[action.use.ring].instances[0] - first) // 8] = 1
        if not all(holds(one, sizes) for one in edge.requires):
            return None
        at = edge.target
    return found
