"""A GEMM as a typed tree, written by hand: for tests of the stages below the frontend.

Spans are found in GEMM_TEXT, so messages about the tree show real source.
"""

from pipec.isa.dtypes import DTYPES
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.types import BOOL, I32, TileType
from pipec.source import Source, Span

BF16, F32 = DTYPES["bf16"], DTYPES["f32"]

GEMM_TEXT = """\
kernel gemm(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[bf16, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 256))

    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 256, 64]), stages=4)
    output = OutputTilePipeline(tmem[f32, 128, 256], stages=1)

    role load(warps=1) produces input:
        for k in range(ceildiv(K, 64)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 256, k * 64])

    role mma(warps=1) consumes input produces output:
        acc = output.acquire_mma_linear()
        for k in range(ceildiv(K, 64)):
            t = input.acquire_consumer()
            mma(acc, t.a, t.b)
            mma.commit(t.mbar())
            t.release()
        acc.release()

    role epilogue(warps=4) consumes output:
        with output.consume() as e:
            store(d[block.x * 128, block.y * 256], cast[bf16](e))
"""


class Gemm:
    """The parts of the GEMM by name; `kernel(**bodies)` puts it together, with other statements for a role where given."""

    def __init__(self) -> None:
        self.source = Source("gemm.pipe", GEMM_TEXT)
        at = self.at
        self.a = tree.TensorParameter("a", BF16, ("M", "K"), at("a: tensor[bf16, M, K]"))
        self.b = tree.TensorParameter("b", BF16, ("N", "K"), at("b: tensor[bf16, N, K]"))
        self.d = tree.TensorParameter("d", BF16, ("M", "N"), at("d: tensor[bf16, M, N]"))
        self.input = tree.Pipeline("input", "InputTilePipeline", 4, at("input"))
        self.output = tree.Pipeline("output", "OutputTilePipeline", 1, at("output"))
        self.tile_a = tree.Buffer("a", "shared", BF16, 128, 64, 4, self.input, at("a=tile[bf16, 128, 64]"))
        self.tile_b = tree.Buffer("b", "shared", BF16, 256, 64, 4, self.input, at("b=tile[bf16, 256, 64]"))
        self.tile_d = tree.Buffer("accumulator", "tensor", F32, 128, 256, 1, self.output, at("tmem[f32, 128, 256]"))
        self.s = self.handle("s", self.input, "producer", "scoped", "input.produce()")
        self.t = self.handle("t", self.input, "consumer", "linear", "input.acquire_consumer()")
        self.acc = self.handle("acc", self.output, "producer", "linear", "output.acquire_mma_linear()")
        self.e = self.handle("e", self.output, "consumer", "scoped", "output.consume()")
        self.k = tree.Variable("k", I32, at("k in range"))
        self.mma_k = tree.Variable("k", I32, at("k in range", 2))

    def at(self, text: str, occurrence: int = 1) -> Span:
        """The span of the given occurrence of `text` in the source."""
        offset = -1
        for _ in range(occurrence):
            offset = GEMM_TEXT.index(text, offset + 1)
        line = GEMM_TEXT.count("\n", 0, offset) + 1
        column = offset - GEMM_TEXT.rfind("\n", 0, offset)
        return self.source.span(line, column, line, column + len(text))

    def handle(self, name: str, pipeline: tree.Pipeline, side: str, form: str, text: str) -> tree.Handle:
        return tree.Handle(name, pipeline, side, form, self.at(text))

    def number(self, value: int) -> tree.Constant:
        return tree.Constant(value, I32, self.at("grid"))

    def condition(self, text: str, special: str, operator: str, value: int) -> tree.Binary:
        span = self.at(text)
        return tree.Binary(operator, tree.Special(special, I32, span), self.number(value), BOOL, span)

    def reference(self, buffer: tree.Buffer, handle: tree.Handle, text: str) -> tree.BufferRef:
        return tree.BufferRef(buffer, handle, False, self.at(text))

    def slice(self, tensor: tree.TensorParameter, text: str) -> tree.TensorSlice:
        return tree.TensorSlice(tensor, (self.number(0), self.number(0)), self.at(text))

    @property
    def trips(self) -> tree.Expression:
        span = self.at("ceildiv(K, 64)")
        return tree.Call("ceildiv", (tree.ReadDimension("K", I32, span), self.number(64)), I32, span)

    def loop(self, variable: tree.Variable, *body: tree.Statement) -> tree.For:
        return tree.For(variable, self.number(0), self.trips, 1, body, variable.span)

    def load_body(self) -> tuple[tree.Statement, ...]:
        loads = (
            tree.TmaLoad(self.reference(self.tile_a, self.s, "s.a"), self.slice(self.a, "a[block.x"), self.at("tma.load(s.a")),
            tree.TmaLoad(self.reference(self.tile_b, self.s, "s.b"), self.slice(self.b, "b[block.y"), self.at("tma.load(s.b")),
        )
        release = tree.Release(self.s, True, self.at("input.produce()"))
        return (self.loop(self.k, tree.Acquire(self.s, self.s.span), *loads, release),)

    @property
    def mma_operation(self) -> tree.Mma:
        tiles = self.reference(self.tile_d, self.acc, "acc"), self.reference(self.tile_a, self.t, "t.a")
        return tree.Mma(*tiles, self.reference(self.tile_b, self.t, "t.b"), None, self.at("mma(acc, t.a, t.b)"))

    def mma_body(self) -> tuple[tree.Statement, ...]:
        body = (
            tree.Acquire(self.t, self.t.span),
            self.mma_operation,
            tree.Signal(self.t, "commit", self.at("mma.commit(t.mbar())")),
            tree.Release(self.t, True, self.at("t.release()")),
        )
        release = tree.Release(self.acc, True, self.at("acc.release()"))
        return (tree.Acquire(self.acc, self.acc.span), self.loop(self.mma_k, *body), release)

    def epilogue_body(self) -> tuple[tree.Statement, ...]:
        read = tree.ReadBuffer(self.reference(self.tile_d, self.e, "e))"), TileType(F32, 128, 256), self.at("e))"))
        value = tree.Convert(read, TileType(BF16, 128, 256), self.at("cast[bf16](e)"))
        store = tree.Store(self.slice(self.d, "d[block.x"), value, "tma", self.at("store(d"))
        return tree.Acquire(self.e, self.e.span), store, tree.Release(self.e, True, self.at("output.consume()"))

    def kernel(self, **bodies: tuple[tree.Statement, ...]) -> tree.Kernel:
        role = self._role
        roles = (
            role("load", 1, (self.input,), (), self.load_body(), "k * 64])\n\n"),
            role("mma", 1, (self.output,), (self.input,), self.mma_body(), "acc.release()"),
            role("epilogue", 4, (), (self.output,), self.epilogue_body(), "cast[bf16](e))"),
        )
        roles = tuple(replace(role, body=bodies.get(role.name, role.body)) for role in roles)
        return tree.Kernel(
            name="gemm",
            document="",
            tensors=(self.a, self.b, self.d),
            scalars=(),
            constants={},
            grid=(self.number(1), self.number(1), self.number(1)),
            pipelines=(self.input, self.output),
            buffers=(self.tile_a, self.tile_b, self.tile_d),
            roles=roles,
            span=self.at("kernel gemm"),
            parameters=("a", "b", "d"),
        )

    def _role(self, name: str, warps: int, produces: tuple, consumes: tuple, body: tuple, end: str) -> tree.Role:
        return tree.Role(name, warps, None, produces, consumes, body, self.at(f"role {name}"), self.at(end))
