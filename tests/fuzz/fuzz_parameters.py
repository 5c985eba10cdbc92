"""Two roles that ask the same of one parameter, each by a way of its own: loaded into a register of some width, converted, added to. Where
they are proved to ask the same, they do for all bits that the parameter may have."""

import json
import random

import numpy as np
from effort import given_up_soon
from verify.interpret import holds

from pipec.protocol import judge as judging
from pipec.sim import Options, SimulationError, launch
from pipec.verify.reader.text.interface import signed_as_declared

COUNT = 5000
_REGISTERS = {16: "%rs", 32: "%r", 64: "%rd"}
_KERNEL = """.version 8.7
.target sm_100a
.address_size 64
{line}
.visible .entry k(.param .{declared} m)
.reqntid 64
{{
  .reg .pred %p<10>; .reg .b16 %rs<30>; .reg .b32 %r<30>; .reg .b64 %rd<30>;
  .shared .align 8 .b64 bar[1];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, bar;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra READY;
  mbarrier.init.shared::cta.b64 [%r1], 32;
READY:
  bar.sync 0;
  setp.lt.u32 %p1, %r0, 32;
  @%p1 bra A;
{waits}
  @!%p2 bra DONE;
W:
  mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r1], 0;
  @!%p9 bra W;
  bra DONE;
A:
{arrives}
  @!%p2 bra DONE;
  mbarrier.arrive.shared::cta.b64 _, [%r1];
DONE:
  ret;
}}
"""


def attempt(draw: random.Random) -> str | None:
    bits = draw.choice((32, 32, 32, 16, 8))
    declared, dtype = draw.choice("usb") + str(bits), draw.choice((f"i{bits}", f"u{bits}", "size", ""))
    asked = draw.choice(("lt", "le", "gt", "ge", "eq", "ne")), draw.choice("us")
    number = draw.choice((0, 1, 5, -1, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1))
    sides = ["\n".join(_way(draw, bits, first, asked, number)) for first in (10, 20)]
    ptx = _KERNEL.format(line=_described(dtype, bits), declared=declared, waits=sides[0], arrives=sides[1])
    with given_up_soon(refuting=False):
        found = judging.judge(ptx, "k")
    if found.certificate is None:
        return ptx if "the reader failed" in found.why else None
    signed = dtype != "size" and (declared[0] in "sb" or signed_as_declared(dtype, declared))
    for value in _numbers(draw, bits):
        beyond = bits - 1 if dtype == "size" else bits
        said = {"m": value - (1 << bits) if signed and value >> bits - 1 else value}
        if value >> beyond or not all(holds(one, said) for one in found.certificate.assumes):
            continue
        try:
            launch(ptx, "k", grid=1, arguments=(np.dtype(f"uint{bits}").type(value),), options=Options(trace=False))
        except SimulationError as error:
            return f"// {value}: {error.kind}\n{ptx}"
    return None


def _numbers(draw: random.Random, bits: int) -> set[int]:
    ends = {(1 << end) + near for end in (0, bits - 1, bits) for near in (-2, -1, 0)}
    return {one for one in (*ends, 4, 5, 6, draw.getrandbits(bits)) if 0 <= one < 1 << bits}


def _way(draw: random.Random, bits: int, first: int, asked: tuple[str, str], number: int) -> list[str]:
    """From the parameter to a comparison, %p2."""
    width = draw.choice([one for one in _REGISTERS if one >= bits])
    register = f"{_REGISTERS[width]}{first}"
    lines = [f"  ld.param.{draw.choice('usb')}{bits} {register}, [m];"]
    for at in range(draw.choice((0, 0, 0, 1, 2))):
        before, to = (register, width), draw.choice([*_REGISTERS])
        register, width = f"{_REGISTERS[to]}{first + 1 + at}", to
        lines.append(f"  cvt.{draw.choice('us')}{to}.{draw.choice('us')}{before[1]} {register}, {before[0]};")
    if draw.random() < 0.2:
        operation = draw.choice(("add.s", "sub.u", "min.s", "max.u", "mul.lo.s"))
        lines.append(f"  {operation}{width} {_REGISTERS[width]}{first + 5}, {register}, {draw.choice((1, 2, -1))};")
        register = f"{_REGISTERS[width]}{first + 5}"
    sign = asked[1] if draw.random() < 0.85 else draw.choice("us")
    return [*lines, f"  setp.{asked[0]}.{sign}{width} %p2, {register}, {number};"]


def _described(dtype: str, bits: int) -> str:
    """The line above the kernel, if it is one of pipec's."""
    if dtype == "size":
        given = [{"kind": "tensor", "name": "y", "shape": ["m"]}] if bits == 32 else []
        read = [{"kind": "dimension", "symbol": "m", "dimension": "m"}]
    else:
        given = [{"kind": "scalar", "name": "m", "dtype": dtype}]
        read = [{"kind": "scalar", "symbol": "m", "scalar": "m", "dtype": dtype}]
    line = {"kernel": "k", "arguments": given, "parameters": read, "grid": [1, 1, 1], "roles": [], "barriers": []}
    return f"// pipec.kernel {json.dumps(line)}" if dtype and given else ""
