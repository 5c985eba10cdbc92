"""What analysis makes of a text in the place where a test wants it: in a role, around its kernel, in its brackets."""

from pipec.diag.message import Message, Sink
from pipec.isa.dtypes import DTYPES
from pipec.sema import analyse, tree
from pipec.source import Source
from pipec.syntax.parse import parse

BF16 = DTYPES["bf16"]

FRAME = """{before}
kernel k[{constants}]({more}\
x: tensor[f32, M, N], h: tensor[bf16, M, N], v: tensor[f32, M], w: tensor[f32, N], n: i32, alpha: f32, u: u32, b: i8):
    grid({grid})
{kernel}
    ring = InputTilePipeline(TilePayload(x=tile[f32, 16, 64], h=tile[bf16, 16, 64]), stages=2)
    role fill(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[0, 0])
            tma.load(s.h, h[0, 0])
    role work(warps=4) consumes ring:
        with ring.consume() as s:
{body}
"""


def analysed(
    body: str = "pass",
    *,
    before: str = "",
    kernel: str = "",
    constants: str = "BM: int = 16",
    grid: str = "1",
    more: str = "",
    overrides: dict[str, object] | None = None,
) -> tuple[list[tree.Kernel], Sink]:
    def indented(text: str, by: int) -> str:
        return "\n".join(" " * by + line for line in text.split("\n"))

    text = FRAME.format(
        before=before, constants=constants, grid=grid, more=more, kernel=indented(kernel, 4), body=indented(body, 12)
    )
    sink = Sink()
    file = parse(Source("t.pipe", text), sink)
    assert file is not None, [diagnostic.title for diagnostic in sink.diagnostics]
    return analyse(file, sink, overrides or {}), sink


def kernel(body: str = "pass", **options: object) -> tree.Kernel:
    kernels, sink = analysed(body, **options)  # type: ignore[arg-type]
    assert [(diagnostic.code, diagnostic.title) for diagnostic in sink.diagnostics] == []
    return kernels[0]


def statements(body: str, **options: object) -> list[tree.Statement]:
    """What the body in the `with` of the role `work` became, without the stage's own acquire and release."""
    return list(kernel(body, **options).roles[1].body[1:-1])


def value(text: str, **options: object) -> tree.Expression:
    """The typed tree of one expression."""
    assignment = statements(f"r = {text}", **options)[-1]
    assert isinstance(assignment, tree.Assign)
    return assignment.value


def told(body: str = "pass", **options: object) -> list[str]:
    """The messages of the catalogue that were reported, by name."""
    _, sink = analysed(body, **options)  # type: ignore[arg-type]
    return [Message.by_code[diagnostic.code].__name__ for diagnostic in sink.diagnostics]
