"""Two warps that ask for tensor memory and give it back, in an order that is right or nearly so: where such a text is proved, the simulator
finds nothing wrong, at several timings."""

import random

from fuzz.ptx_judge import CHECKS

from pipec.protocol.judge import judge
from pipec.sim import Options, SimulationError, launch

COUNT = 2000
_TIMINGS = (("order", 0), ("late", 0), ("random", 1), ("random", 2))
_PLACES = ("[one]", "[two]")
_COLUMNS = (32, 64, 64, 256, 512)
_MEETINGS = ("bar.sync 0;", "bar.sync 0;", "bar.sync 1, 64;", "bar.warp.sync -1;", "")
_KERNEL = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k()
.reqntid 64
{{
  .reg .pred %p<9>; .reg .b32 %r<9>;
  .shared .align 4 .b32 one; .shared .align 4 .b32 two;
  mov.u32 %r0, %tid.x;
  setp.lt.u32 %p0, %r0, 32;
  mov.b32 %r6, 0; mov.b32 %r7, 0;
{body}
  ret;
}}
"""


def text(draw: random.Random) -> str:
    columns = draw.choice(_COLUMNS)
    asked = [*zip(_PLACES, (columns, draw.choice((columns, 32))), ("%r6", "%r7"), strict=True)][: draw.choice((1, 1, 2))]
    steps = [f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 {place}, {count};" for place, count, _ in asked]
    if draw.random() < 0.3:
        steps.append("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;")
    loads = [f"ld.shared.b32 {register}, {place};" for place, _, register in asked]
    frees = [f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 {register}, {count};" for _, count, register in asked]
    lines = [*(_guarded(one, draw, 0.1) for one in steps), draw.choice(_MEETINGS), *loads, draw.choice(_MEETINGS)]
    lines += [_guarded(one, draw, 0.4) for one in frees]
    for _ in range(draw.choice((0, 0, 1, 2))):
        _change(lines, draw)
    return _KERNEL.format(body="\n".join(f"  {line.replace('HERE', f'L{at}')}" for at, line in enumerate(lines)))


def _guarded(step: str, draw: random.Random, other: float) -> str:
    """By one of the two warps."""
    return f"@{'' if draw.random() < other else '!'}%p0 bra HERE; {step} HERE:"


def _change(lines: list[str], draw: random.Random) -> None:
    at, to = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.choice(("moved", "dropped", "twice", "register", "place", "columns")):
        case "moved":
            lines.insert(to, lines.pop(at))
        case "dropped":
            lines[at] = ""
        case "twice":
            lines.insert(to, lines[at])
        case "register":
            lines[at] = lines[at].replace("%r6", "%r7")
        case "place":
            lines[at] = lines[at].replace("[two]", "[one]")
        case _:
            lines[at] = lines[at].replace(", 64;", ", 32;")


def attempt(draw: random.Random) -> str | None:
    made = text(draw)
    if judge(made, "k").certificate is None:
        return None
    for timing, seed in _TIMINGS:
        try:
            launch(made, "k", options=Options(timing, seed, 2000, trace=False, checks=CHECKS, rules="documents"))  # type: ignore[arg-type]
        except SimulationError as error:
            return f"proved, but {error.kind}: {error.message.splitlines()[0]}\n{made}"
    return None
