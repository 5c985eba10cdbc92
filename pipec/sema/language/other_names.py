"""Names from other kernel languages that pipec lacks, with their replacements: looked up when a name is undefined.

A program may use any of these names itself.
"""

from pipec.isa.dtypes import DTYPES
from pipec.record import record
from pipec.sema.language.functions import FUNCTIONS


@record
class OtherName:
    """`edit` replaces the name, including the library prefix."""

    names: tuple[str, ...]
    why: str
    instead: str
    edit: str | None = None


def _renamed(names: str, why: str, name: str) -> OtherName:
    return OtherName(tuple(names.split()), why, f"write `{name}`", name)


def _row(names: str, why: str, instead: str) -> OtherName:
    return OtherName(tuple(names.split()), why, instead)


_ENDS_BY_HEADER = (
    "how many stages a loop takes is read from its header, so that both sides of a pipeline are seen to take as many"
)
_OWN_BARRIERS = "a pipeline derives its barriers, their counts and their phases, and checks that each is signalled and waited for"

_ROWS = (
    _row(
        "break", _ENDS_BY_HEADER, "put the condition into the header, `while not done:`, or guard the rest of the body with `if`"
    ),
    _row("continue", _ENDS_BY_HEADER, "guard the rest of the body with `if not skip:`"),
    _row(
        "print printf device_print",
        "the threads of a grid would print in no order, and a role that prints delays the roles that wait for it",
        "store the value into a tensor of its own, `store.direct(debug[i, j], x)`, and read that after the launch",
    ),
    _row(
        "None none null nullptr NULL nil", "every name has a value", "leave the argument out, or use a number that cannot occur"
    ),
    _renamed("true TRUE", "the two conditions are spelt as in Python", "True"),
    _renamed("false FALSE", "the two conditions are spelt as in Python", "False"),
    _renamed("cdiv ceil_div div_up divup", "it is the quotient rounded up", "ceildiv"),
    _renamed("maximum", "it takes two operands, tiles too", "max"),
    _renamed("minimum", "it takes two operands, tiles too", "min"),
    _renamed("fmaxf maxnum", "of a NaN and a number it takes the number", "fmax"),
    _renamed("fminf minnum", "of a NaN and a number it takes the number", "fmin"),
    _renamed("where", "it chooses element by element", "select"),
    _renamed("static_range", "a loop with compile-time bounds is unrolled where its variable has to be known", "range"),
    _row("clamp clip", "it would be two operations on the GPU, too", "write `min(max(x, low), high)`"),
    _row(
        "len",
        "a size has a name of its own, bound when the kernel is launched",
        "write the dimension of the tensor: `N` of `tensor[f32, M, N]`",
    ),
    _row(
        "sum reduce",
        "sums run along the rows or the columns of a tile",
        'write `row_sum(tile)` or `column_sum(tile)`; over blocks, `store(..., reduce="add")`',
    ),
    _row("int", "a conversion names the element type", "write `cast[i32](x)`"),
    _row("float", "a conversion names the element type", "write `cast[f32](x)`"),
    _row("silu swish", "it is a product", "write `x * sigmoid(x)`"),
    _row(
        "argmax argmin",
        "a reduction gives values, not places",
        "write `row_min(select(x == row_max(x), column_index(N), N))` for the first place of the largest of N columns",
    ),
    _row(
        "cumsum cumprod scan associative_scan",
        "the columns of a row lie in several threads, and nothing is handed from one to the next",
        "write running sums as a product with a triangle of ones, by `mma`",
    ),
    _row(
        "sort argsort topk",
        "no operation moves elements by their values",
        "take the largest away one by one: `x = select(x == row_max(x), -3.0e38, x)`",
    ),
    _row("softmax", "it is a few operations", "write `e = registers(exp(x - row_max(x)))` and `e / row_sum(e)`"),
    _row("mean", "it is a sum and a quotient", "write `row_sum(x) / N`"),
    _row("isnan", "a NaN is unlike itself", "write `x != x`"),
    _row(
        "inf infinity INFINITY", "numbers are written with digits", "write a number beyond all others, such as `3.0e38` for `f32`"
    ),
    _row(
        "rand randn randint random philox",
        "threads have no generator",
        "hash each place, `row_index(rows)` and `column_index(columns)`, by products, shifts and `^`, or load a tensor of numbers",
    ),
    _row("tan", "it is a quotient", "write `sin(x) / cos(x)`"),
    _row("log1p", "there is one logarithm for each base", "write `log(1.0 + x)`"),
    _row("expm1", "there is one power for each base", "write `exp(x) - 1.0`"),
    _row(
        "reshape view ravel flatten",
        "a tile has the rows and columns that it was loaded with",
        "declare the tensor with the dimensions that the tile needs, which lie along its last two",
    ),
    _row(
        "broadcast broadcast_to expand_dims unsqueeze squeeze",
        "a size of 1 goes with any other",
        "write the operation itself: `x - row_max(x)`, `x * per_column(w[0], columns)`",
    ),
    _row(
        "gather index_select take",
        "rows that stand anywhere are loaded by their numbers",
        "write `load(t[0, j], rows, columns, at=numbers)`, with `numbers` such as `per_row(token[m], rows)`",
    ),
    _row(
        "scatter scatter_add index_add",
        "rows that go anywhere are added by their numbers",
        'write `store.direct(t[0, j], tile, at=numbers, reduce="add")`',
    ),
    _row("pow", "a GPU has no instruction for powers", "write `x * x`, or `exp2(y * log2(x))` for a positive `x`"),
    _row(
        "zip enumerate reversed sorted map filter list dict set tuple",
        "a kernel has no heap, and no collections",
        "write a loop over `range(...)`",
    ),
    _row("trunc", "it is a conversion", "write `cast[f32](cast[i32](x))`, for numbers of 32 bits"),
    _renamed("rint nearbyint", "to the nearest whole number", "round"),
    _row("threadIdx tid", "threads are counted within their role", "write `role_thread()`, `role_warp()` or `lane_id()`"),
    _renamed("blockIdx", "the place of this block in the grid", "block"),
    _renamed("gridDim", "how many blocks run", "grid"),
    _row("blockDim", "the threads of a block are those of its roles", "the compiler derives it from `warps=` of the roles"),
    _row(
        "__syncthreads syncthreads __syncwarp barrier sync_threads debug_barrier bar_sync",
        "roles run independently: a barrier for all threads would wait for roles that never come",
        "hand tiles over by a pipeline; a role's own threads are synchronised where they have to be",
    ),
    _row(
        "program_id bid block_id block_idx",
        "the place of this block in the grid has one name for each axis",
        "write `block.x`, `block.y` or `block.z`",
    ),
    _row(
        "num_sms NUM_SMS sm_count num_sm multiprocessors multiprocessor_count",
        "how many multiprocessors the GPU has is known when the kernel is launched",
        'write `tiles = TileScheduler(x, y, mode="static")`, which launches as many blocks, or `grid(min(tiles, gpu.multiprocessors))`',
    ),
    _row("num_programs grid_dim", "how many blocks run has one name for each axis", "write `grid.x`, `grid.y` or `grid.z`"),
    _row(
        "arange iota make_range",
        "places inside a tile are tiles themselves",
        "write `row_index(rows)` or `column_index(columns)`; a tile of a tensor is named by its first element alone",
    ),
    _row(
        "zeros zeros_like ones full full_like empty", "a tile states its type and size", "write `fill(0.0, f32, rows, columns)`"
    ),
    _row(
        "dot gemm matmul mma_async tcgen05_mma warpgroup_mma wgmma dot_scaled",
        "a product of matrices is issued by one thread into an accumulator",
        "write `mma(acc, s.a, s.b)`, with an accumulator such as `acc = output.acquire_mma_linear()`",
    ),
    _row(
        "make_tensor_descriptor make_tma_atom make_block_ptr make_tma_copy local_tile partition_D partition_S make_tensor",
        "tensor maps, swizzles and tiles follow from the tile that a stage declares",
        "write `tma.load(s.a, a[row, column])`",
    ),
    _row(
        "async_copy_global_to_shared copy copy_tma async_copy",
        "a copy fills the tile of a stage, whose barrier it then signals",
        "write `tma.load(s.a, a[row, column])`",
    ),
    _row("async_copy_shared_to_global", "a copy names its tensor first", "write `tma.store(y[row, column], s.a)`"),
    _row(
        "allocate_shared_memory alloc_shared shared_memory SmemAllocator",
        _OWN_BARRIERS,
        "declare a pipeline with its tiles: `InputTilePipeline(TilePayload(x=tile[f32, 64, 64]), stages=4)`",
    ),
    _row(
        "mbarrier allocate_mbarrier init_mbarrier mbarrier_init PipelineTmaUmma PipelineTmaAsync PipelineUmmaAsync PipelineAsync",
        _OWN_BARRIERS,
        "declare a pipeline, and hold its stages by `with pipeline.produce() as s:` and `with pipeline.consume() as s:`",
    ),
    _row("warp_specialize async_task", "warps are given their work by name", "write `role name(warps=4) consumes pipeline:`"),
    _row(
        "constexpr Constexpr",
        "compile-time parameters stand in brackets",
        "write `kernel name[BM: int = 128](...)`, or `comptime NAME = value`",
    ),
    _row("trans permute transpose", "a tile is read the other way round by its view", "write `s.a.T` as an operand of `mma`"),
    _row(
        "atomic_add atomic_max atomic_min atomicAdd",
        "combining with memory is part of the store",
        'write `store(t[i, j], tile, reduce="add")`; for rows that go anywhere, `store.direct(t[0, j], tile, at=numbers, reduce="add")`',
    ),
    _row(
        "num_warps num_stages num_ctas",
        "they belong to roles and pipelines",
        "write `role name(warps=4)` and `stages=4` of a pipeline",
    ),
    _row("self", "a kernel is no method", "name the tensors as parameters of the kernel"),
)

# Only after a library's name: `tl.max(x, 1)` reduces, `max(x, y)` does not.
_MEMBERS = (
    _row(
        "max amax reduce_max",
        "a reduction of a tile runs along its rows or its columns",
        "write `row_max(tile)` or `column_max(tile)`",
    ),
    _row(
        "min amin reduce_min",
        "a reduction of a tile runs along its rows or its columns",
        "write `row_min(tile)` or `column_min(tile)`",
    ),
    _row(
        "sum reduce_sum",
        "a reduction of a tile runs along its rows or its columns",
        "write `row_sum(tile)` or `column_sum(tile)`",
    ),
    _row(
        "load",
        "a copy by hardware fills a stage, a load by threads gives values",
        "write `tma.load(s.x, x[i, j])`, or `load(x[i, j], rows, columns)` for a tile of values",
    ),
    _row("store", "a store names its tensor by the first element of the tile", "write `store(y[i, j], tile)`"),
)

_DTYPES = {
    **{
        f"{kind}{bits}": f"{short}{bits}"
        for kind, short in (("int", "i"), ("uint", "u"), ("float", "f"))
        for bits in (8, 16, 32, 64)
    },
    **{f"{kind}{bits}_t": f"{short}{bits}" for kind, short in (("int", "i"), ("uint", "u")) for bits in (8, 16, 32, 64)},
    "bfloat16": "bf16",
    "half": "f16",
    "double": "f64",
    "fp16": "f16",
    "fp32": "f32",
    "fp64": "f64",
    "float8_e4m3fn": "e4m3",
    "float8e4nv": "e4m3",
    "Float8E4M3FN": "e4m3",
    "float8_e5m2": "e5m2",
    "float8e5": "e5m2",
    "BFloat16": "bf16",
    "Float16": "f16",
    "Float32": "f32",
    "Int32": "i32",
    "Uint32": "u32",
    "bool_": "bool",
}

LIBRARIES = {
    **dict.fromkeys(("tl", "triton", "libdevice"), "Triton"),
    **dict.fromkeys(("gl", "ttgl", "gluon"), "Gluon"),
    **dict.fromkeys(("ttg", "ttng"), "Triton's dialects"),
    **dict.fromkeys(("cute", "cutlass", "nvgpu", "tcgen05"), "CUTLASS"),
    **dict.fromkeys(("T", "tilelang"), "TileLang"),
    **dict.fromkeys(("pl", "plgpu", "jnp", "jax", "lax"), "JAX"),
    **dict.fromkeys(("np", "numpy", "math", "torch"), "Python's libraries"),
}
_SHORT = ("T", "pl", "gl", "tcgen05")  # may be a misspelt name of the program, unless the member is known as well

NAMES: dict[str, OtherName] = {name: row for row in _ROWS for name in row.names}
MEMBERS: dict[str, OtherName] = NAMES | {name: row for row in _MEMBERS for name in row.names}


# Members of arrays and tiles in other languages, with the replacement here.
OTHER_MEMBERS: dict[str, str] = {
    **dict.fromkeys(("shape", "size", "numel"), "a size has a name: write `M`, `N` as in `tensor[f32, M, N]`"),
    **dict.fromkeys(("to", "astype", "type", "cast"), "write `cast[f32](x)`"),
    **dict.fromkeys(
        ("dtype", "element_type"), "declare the element type as a compile-time parameter: `kernel name[T: dtype = bf16](...)`"
    ),
    **dict.fromkeys(("max", "sum", "min"), "write `row_max(x)`, `row_sum(x)` or `row_min(x)`"),
    **dict.fromkeys(("trans", "permute", "transpose"), "write `s.a.T` as an operand of `mma`"),
    **dict.fromkeys(("load", "copy_"), "write `load(x[i, j], rows, columns)`, or `tma.load(s.x, x[i, j])`"),
    "store": "write `store(y[i, j], tile)`",
}


def other_name(name: str) -> OtherName | None:
    """The replacement for an undefined name."""
    if name in _DTYPES and _DTYPES[name] in DTYPES:
        return _renamed(name, "element types have short names", _DTYPES[name])
    return NAMES.get(name)


def library_member(path: str) -> OtherName | None:
    """The replacement for `tl.dot` and the like; None if the first name is not a library."""
    library, _, rest = path.partition(".")
    if library not in LIBRARIES or not rest:
        return None
    member = rest.rsplit(".", 1)[-1]
    if member in MEMBERS:
        return MEMBERS[member]
    if library in _SHORT:
        return None
    why = f"it belongs to {LIBRARIES[library]}; pipec's own operations stand without a library's name"
    if member in _DTYPES and _DTYPES[member] in DTYPES:
        return _renamed(member, why, _DTYPES[member])
    if member in FUNCTIONS or member in ("range", "static_assert", *DTYPES):
        return _renamed(member, why, member)
    return _row(member, why, "look for what it does in docs/language.md, which lists the operations")
