"""Messages of the assembling stage: what ptxas and nvJitLink say about generated PTX."""

from pipec.diag.message import Message, primary
from pipec.source import Span


class AssemblerRejects(Message):
    """The NVIDIA assembler refused a line of the generated PTX.

    The PTX that pipec writes should always assemble, so the usual cause is an assembler older than the target, a hand-written
    instruction that the target does not have, or a bug in pipec. The message shows the source line that the PTX line was
    generated from if the PTX says so (`.loc`), otherwise the PTX line itself.
    """

    code = "E0951"
    title = "{assembler} rejects the generated PTX: {reason}"
    labels = (primary("at", "PTX line {line} was generated from here"), primary("ptx_at", "in this PTX line"))
    note = "PTX line {line}: `{text}`"
    assembler: str
    reason: str
    line: int
    text: str
    at: Span | None
    ptx_at: Span | None


class AssemblerTooOld(Message):
    """The assembler that was found does not know the generated PTX version, or the target.

    nvJitLink and ptxas take PTX up to the version they were released with: 13.0 takes 9.0, 13.5 takes 9.5.
    """

    code = "E0952"
    title = "{assembler} is too old for this PTX: {reason}"
    help = "python -m pip install --upgrade nvidia-nvjitlink nvidia-cuda-nvcc"
    assembler: str
    reason: str


class AssemblerMissing(Message):
    """There is no assembler here to turn PTX into machine code.

    pipec itself needs none to emit PTX, to check a kernel or to simulate it. A cubin needs nvJitLink (in process, package
    nvidia-nvjitlink) or ptxas (package nvidia-cuda-nvcc, or a CUDA toolkit whose bin folder is on PATH).
    """

    code = "E0953"
    title = "no assembler found for `{wanted}`"
    note = "{reasons}"
    help = "python -m pip install 'pipec[assemble]'"
    wanted: str
    reasons: str


class AssemblerFails(Message):
    """The assembler ended without a cubin and without naming a PTX line: it crashed, the disk is full, or it reached a limit of its
    own."""

    code = "E0954"
    title = "{assembler} failed: {reason}"
    assembler: str
    reason: str
