"""Which instructions the simulator takes and which it says it does not know; the assembler takes all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipec.diag.message import Sink
from pipec.ptx.assemble import assemble
from pipec.sim import SimulationError, launch

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n.extern .shared .align 1024 .b8 sm[];\n"
REGISTERS = (
    ".reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<140>; .reg .b64 %d<20>; .reg .b128 %q<4>; .reg .f32 %f<20>; .reg .f64 %e<8>; "
    ".reg .b8 %c<4>;"
)


def _forms(name: str) -> list[str]:
    return (Path(__file__).parent / "forms" / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def _registers(count: int, first: int = 1) -> str:
    return "{" + ", ".join(f"%r{first + number}" for number in range(count)) + "}"


_PER_COUNT = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}
TENSOR_ACCESSES = [
    form
    for shape, each in _PER_COUNT.items()
    for count in (1, 2, 4, 8, 16, 32, 64, 128)
    if each * count <= 128
    for form in (
        f"tcgen05.ld.sync.aligned.{shape}.x{count}.b32 {_registers(each * count)}, [%r0];",
        f"tcgen05.ld.sync.aligned.{shape}.x{count}.pack::16b.b32 {_registers(each * count)}, [%r0];",
        f"tcgen05.st.sync.aligned.{shape}.x{count}.b32 [%r0], {_registers(each * count)};",
        f"tcgen05.st.sync.aligned.{shape}.x{count}.unpack::16b.b32 [%r0], {_registers(each * count)};",
    )
] + [
    form
    for count in (1, 2, 4, 8, 16, 32, 64, 128)
    for form in (
        f"tcgen05.ld.sync.aligned.16x32bx2.x{count}.b32 {_registers(count)}, [%r0], 16;",
        f"tcgen05.st.sync.aligned.16x32bx2.x{count}.b32 [%r0], 16, {_registers(count)};",
    )
]

TENSOR, OTHERS = _forms("tensor"), _forms("others")

# Of PTX ISA 9.2 and later, which the assembler of these tests does not know.
NEWER = _forms("newer")

# Known to the assembler, not to the simulator: what they do is not sure (a figure nobody here has), or nobody has needed them.
REFUSED = _forms("refused")


GROUP_ONE, GROUP_TWO = ([form.replace("::N", f"::{number}") for form in TENSOR] for number in (1, 2))
ACCEPTED = [*GROUP_ONE, *GROUP_TWO, *TENSOR_ACCESSES, *OTHERS]


def _module(*bodies: list[str]) -> str:
    kernels = (
        f".visible .entry k{number}() {{\n{REGISTERS}\n{chr(10).join(body)}\nret;\n}}\n" for number, body in enumerate(bodies)
    )
    return HEAD + "".join(kernels)


def _skipped(instruction: str) -> str:
    """A kernel that contains the instruction and does not execute it: it is decoded all the same."""
    return _module(["bra END;", instruction, "END:"])


@pytest.mark.parametrize("instruction", [*ACCEPTED, *NEWER])
def test_taken(instruction: str) -> None:
    """Decoding refuses at once what is malformed; what is not known fails when it is reached."""
    from pipec.sim.instructions.decode import decode
    from pipec.sim.load import load
    from pipec.sim.machine.memory.global_memory import GlobalMemory
    from pipec.sim.ptx.parse import parse

    module = parse(_skipped(instruction))
    image = load(module, module.functions["k0"], GlobalMemory(), 4096).image
    decode(image.function.instructions[1], image)


@pytest.mark.parametrize("instruction", REFUSED)
def test_not_known_with_its_line(instruction: str) -> None:
    with pytest.raises(SimulationError) as caught:
        launch(_module([instruction]), block=32)
    assert (caught.value.kind, caught.value.ptx_line) == ("unsupported", HEAD.count("\n") + 3)
    launch(_skipped(instruction), block=32)  # only when it is reached


def test_the_assembler_takes_them_all() -> None:
    sink = Sink()
    text = _module([*GROUP_ONE, *TENSOR_ACCESSES, *OTHERS], GROUP_TWO, REFUSED)
    assert assemble(text, "sm_100a", sink, tool="ptxas") is not None, [diagnostic.title for diagnostic in sink.diagnostics]
