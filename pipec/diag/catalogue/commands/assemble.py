"""Messages of the assembling stage: what ptxas and nvJitLink say about generated PTX."""

from pipec.diag.message import Message, primary
from pipec.source import Span


class AssemblerRejects(Message):
    """The NVIDIA assembler refused a line of the generated PTX.

    The PTX that pipec writes should always assemble, so this is most often an assembler older than the target, an
    instruction written by hand that the target does not have, or a fault of pipec. The message shows the source line that
    the PTX line was generated from where the PTX says so (`.loc`), else the PTX line itself.
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
    """The assembler found does not know the PTX version that was generated, or not the target.

    nvJitLink and ptxas take PTX up to the version they were released with: 13.0 takes 9.0, 13.5 takes 9.5.
    """

    code = "E0952"
    title = "{assembler} is too old for this PTX: {reason}"
    help = "python -m pip install --upgrade nvidia-nvjitlink nvidia-cuda-nvcc"
    assembler: str
    reason: str


class AssemblerMissing(Message):
    """No assembler turns PTX into machine code here.

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
    """The assembler ended without a cubin and without naming a PTX line: a crash, a full disk, or a limit of its own."""

    code = "E0954"
    title = "{assembler} failed: {reason}"
    assembler: str
    reason: str
