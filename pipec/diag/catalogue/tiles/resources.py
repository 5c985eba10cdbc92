"""E07xx: what the hardware offers: memory, threads, registers, and the shapes that MMAs and tensor copies take."""

from pipec.diag.message import Message, primary, replace, secondary, set_keyword
from pipec.source import Span


class StageCount(Message):
    """A pipeline has at most 32 stages. Two to eight hide the latency of loads; more only take shared memory.

    With `k_group_size=G` what counts are the group stages, `stages` divided by G.
    """

    code = "E0701"
    title = "pipeline `{pipeline}` has {stages} stages"
    labels = (primary("at", "{most} at most"),)
    note = "more stages than that hide no latency: they only take shared memory, for their tiles and two barriers each"
    help = "write `stages={most}`, or fewer"
    edits = (set_keyword("at", "stages", "{most}"),)
    pipeline: str
    stages: int
    most: int
    at: Span


class NoStages(Message):
    """A pipeline has at least one stage: a stage is a slot that the producer fills while the consumer has it empty."""

    code = "E0744"
    title = "pipeline `{pipeline}` has {stages} stages"
    labels = (primary("at", "a pipeline has at least 1 stage"),)
    note = "there would be no barrier and no slot: the first acquire would wait on memory that is not its own"
    help = "write `stages=1`, or `stages=2` for a producer that runs ahead"
    edits = (set_keyword("at", "stages", "1"),)
    pipeline: str
    stages: int
    at: Span


class RowBytes(Message):
    """The rows of a tile in shared memory are a multiple of 16 bytes long.

    TMA copies and MMAs address shared memory in units of 16 bytes (the inner box extent of a tensor map, the core matrices of an
    MMA operand). For 2-byte elements the last tile size is a multiple of 8, for 1-byte elements a multiple of 16.
    """

    code = "E0702"
    title = "the rows of tile `{tile}` are {bytes} bytes long, which is not a multiple of 16"
    labels = (primary("at", "{columns} elements of {dtype}: {bytes} bytes in a row"),)
    note = "tensor copies address shared memory in units of 16 bytes"
    help = "use {fitting} columns"
    tile: str
    bytes: int
    columns: int
    dtype: str
    fitting: int
    at: Span


class WarpCount(Message):
    """A role has between 1 and 32 warps of 32 threads; a thread block has at most 1024 threads in all."""

    code = "E0703"
    title = "role `{role}` has {warps} warps"
    labels = (primary("at", "a role has 1 to 32 warps"),)
    role: str
    warps: int
    at: Span


class Threads(Message):
    """The roles of a kernel have more threads than one thread block may have.

    Roles that read tensor memory start at a warp divisible by 4, so the block can hold more warps than the roles' sum.
    """

    code = "E0704"
    title = "kernel `{kernel}` needs {threads} threads, but a block has at most {most}"
    labels = (primary("at", "its roles run side by side"), secondary("roles", "part of the block's threads"))
    note = "{list}"
    kernel: str
    threads: int
    most: int
    list: str
    at: Span
    roles: tuple[Span, ...]


class RegisterBudget(Message):
    """A role's register budget is a multiple of 8 from 24 to 256 (what `setmaxnreg` takes), per thread."""

    code = "E0705"
    title = "role `{role}` asks for {registers} registers per thread"
    labels = (primary("at", "a budget is a multiple of 8 from 24 to 256"),)
    help = "write `registers={fitting}`"
    edits = (set_keyword("at", "registers", "{fitting}"),)
    role: str
    registers: int
    fitting: int
    at: Span


class RegisterTotal(Message):
    """The register budgets of the roles add up to more than the launch gives one thread block.

    Every thread starts with the same number of registers: 65536 divided by the threads of the block, rounded down to a multiple of 8,
    and at most 248. What a role gives back (`setmaxnreg.dec`) another may take (`setmaxnreg.inc`), and no more: a role that asks for
    more waits for registers that never come, so the kernel hangs. Budgets hold for whole groups of 4 warps; a group without one keeps
    what the launch gave it. Give copying roles few (`registers=40`), computing roles the rest.
    """

    code = "E0706"
    title = "the register budgets of kernel `{kernel}` add up to {total}, but a block starts with {most}"
    labels = (primary("at", "its roles ask for too much together"), secondary("roles", "has a budget"))
    note = (
        "{threads} threads start with {launch} registers each; the role that asks for the last ones waits for ever. "
        "Budgets hold for groups of 4 warps: {list}"
    )
    kernel: str
    total: int
    most: int
    threads: int
    launch: int
    list: str
    at: Span
    roles: tuple[Span, ...]


class CopyType(Message):
    """A tile and the tensor it is copied from or to have different element types.

    A tensor copy moves bytes; it converts nothing. Give the tile the tensor's type, or convert with `cast[...]` on the way
    through registers. (A tf32 tile takes an f32 tensor: tf32 is how an MMA reads f32.)
    """

    code = "E0707"
    title = "`{operation}` copies between a tile of {tile} and a tensor of {tensor}"
    labels = (
        primary("at", "the tile holds {tile}"),
        secondary("slice", "the tensor holds {tensor}"),
        secondary("declared", "declared here"),
    )
    note = "a copy moves bytes and converts nothing: {tile} values would be read as {tensor} bits"
    help = "{hint}"
    operation: str
    tile: str
    tensor: str
    hint: str | None
    at: Span
    slice: Span
    declared: Span | None


class CopyRank(Message):
    """A tile of several rows is copied from or to a tensor of one dimension, which has only one row.

    Only `store.direct` takes a tile of one column there: a value for each row, `row_sum(x)` say, goes to an element of its own.
    """

    code = "E0708"
    title = "`{operation}` copies {rows} rows between a tile and tensor `{tensor}`, which has one dimension"
    labels = (primary("at", "this tile has {rows} rows"), secondary("declared", "this tensor has one dimension, so one row"))
    help = "declare the tensor with two dimensions"
    operation: str
    rows: int
    tensor: str
    at: Span
    declared: Span


class AccumulatorRows(Message):
    """An accumulator has 64 or 128 rows: the M of one MMA, laid out over the 128 lanes of tensor memory."""

    code = "E0709"
    title = "the accumulator of `{buffer}` has {rows} rows"
    labels = (primary("at", "an accumulator has 64 or 128 rows"),)
    buffer: str
    rows: int
    at: Span


class MmaColumns(Message):
    """The N of an MMA, the columns of its accumulator, must be one the hardware takes.

    N is a multiple of 8 from 8 to 256; with 8-bit integer operands 8, 16, 24, 32 or a multiple of 16 up to 256; with a transposed
    8-bit operand `b` a multiple of 16.
    """

    code = "E0710"
    title = "an MMA with N = {columns} does not exist for {dtype} operands"
    labels = (primary("at", "N is the number of columns of the accumulator"), secondary("declared", "{columns} columns"))
    note = "{rule}"
    help = "use {fitting} columns"
    columns: int
    dtype: str
    rule: str
    fitting: int
    at: Span
    declared: Span


class MmaDepth(Message):
    """The K of an operand tile is a multiple of 32 bytes: each MMA instruction reads 32 bytes of K.

    That is 16 elements of 2 bytes, 8 of tf32, 32 of 1 byte.
    """

    code = "E0711"
    title = "the K extent of tile `{tile}` is {depth}, which is not a multiple of {step}"
    labels = (primary("at", "K = {depth} elements of {dtype}"), secondary("declared", "declared here"))
    note = "one MMA instruction reads 32 bytes of K, which are {step} elements of {dtype}"
    help = "use a K extent of {fitting}"
    tile: str
    depth: int
    step: int
    dtype: str
    fitting: int
    at: Span
    declared: Span


class MmaShapes(Message):
    """The tiles of an MMA do not fit together: accumulator[M, N] (+)= a[M, K] @ b[N, K].T.

    A tile stored with K outermost is given as `.T`.
    """

    code = "E0712"
    title = "the tiles of this `mma` do not fit: {one} but {other}"
    labels = (
        primary("at", "accumulator[M, N] (+)= a[M, K] @ b[N, K].T"),
        secondary("first", "{one}"),
        secondary("second", "{other}"),
    )
    help = "{hint}"
    one: str
    other: str
    hint: str | None
    at: Span
    first: Span
    second: Span


class MmaOperandTypes(Message):
    """The two operands of an MMA have types that the hardware does not multiply with each other.

    f16 with f16, bf16 with bf16, tf32 with tf32; e4m3, e5m2, e2m3, e3m2 and e2m1 in any mix; i8 and u8 in any mix. f32 data is multiplied
    as tf32: declare the tiles with `tf32`.
    """

    code = "E0713"
    title = "no MMA multiplies {a} with {b}"
    labels = (primary("at", "`a` is {a}, `b` is {b}"), secondary("first", "{a}"), secondary("second", "{b}"))
    note = "there are MMAs for f16, bf16, tf32, any mix of e4m3, e5m2, e2m3, e3m2 and e2m1, any mix of i8 and u8"
    help = "{hint}"
    a: str
    b: str
    hint: str | None
    at: Span
    first: Span
    second: Span


class AccumulatorType(Message):
    """The accumulator of an MMA has a type in which the hardware does not add up these operands.

    f32 for all float operands; f16 also for f16 and narrower float operands; i32 for integer operands.
    """

    code = "E0714"
    title = "an MMA of {operands} operands does not add up in {accumulator}"
    labels = (primary("at", "adds up in {accumulator}"), secondary("declared", "declared as {accumulator}"))
    help = "declare the accumulator as `{declaration}`"
    edits = (replace("declared", "{declaration}"),)
    operands: str
    accumulator: str
    declaration: str
    at: Span
    declared: Span


class AccumulatorShare(Message):
    """The rows of an accumulator in registers cannot be shared out to the warpgroups of its role.

    One `wgmma` gives a warpgroup (4 warps) 64 rows, so a role of 8 warps holds a multiple of 128 rows.
    """

    code = "E0741"
    title = "the {rows} rows of accumulator `{accumulator}` cannot be shared out to {groups}"
    labels = (primary("at", "{rows} rows"), secondary("declared", "a role of {groups}"))
    note = "each warpgroup takes a multiple of 64 rows"
    help = "use {fitting} rows"
    accumulator: str
    rows: int
    groups: str
    fitting: int
    at: Span
    declared: Span


class AccumulatorRegisters(Message):
    """The accumulators of a role need more registers than its threads have.

    A thread has at most 255, or what `registers=` gives its role, or what is left when the block's threads share 65536; addresses, loop
    counters and the epilogue need some. 128 x 256 elements of f32 take 128 registers in each thread of 8 warps, and 256 in each of 4.
    """

    code = "E0742"
    title = "the accumulators of role `{role}` take {registers} of the {budget} registers of each thread"
    labels = (
        primary("at", "in registers"),
        secondary("others", "in registers too"),
        secondary("declared", "a role of {warps} warps"),
    )
    note = "about {reserve} are needed for everything else; what does not fit would go to slow local memory"
    help = "{hint} the rows out to more warps, or use fewer columns"
    role: str
    registers: int
    budget: int
    reserve: int
    warps: int
    hint: str
    at: Span
    others: tuple[Span, ...]
    declared: Span


class MmaRegisters(Message):
    """One MMA in registers needs more registers than a thread of the kernel starts with.

    The registers of an instruction are allotted from what the launch gives, 65536 shared out to the threads of the block in whole groups
    of 4 warps. `registers=` raises a role's budget afterwards, which leaves room for more accumulators, but not for a wider one:
    the assembler refuses the instruction. 256 columns of f32 take 128 registers and about 26 more, which 12 warps leave to each thread;
    a 13th warp costs as much as 4.
    """

    code = "E0745"
    title = "an MMA of {columns} columns takes {needed} registers of each thread, which starts with {start}"
    labels = (
        primary("at", "adds up in {columns} columns of {dtype}"),
        secondary("declared", "budgets of roles come after the start"),
    )
    note = "the block has {threads} threads, and those of whole groups of 4 warps share 65536 registers; the assembler refuses the MMA"
    help = "use at most {fitting} columns, or fewer warps"
    needed: int
    columns: int
    dtype: str
    start: int
    threads: int
    fitting: int
    at: Span
    declared: Span


class TransposedOperand(Message):
    """A transposed MMA operand (`.T`, stored with K outermost) has a type or row length the MMA cannot read that way.

    MMAs in registers (sm_90a) read only 16-bit operands stored with K outermost. In tensor memory all types can be:
    32-bit operands stored with K outermost need rows that are a multiple of 128 bytes (the 128-byte swizzle with 32-byte atoms is
    the only layout the hardware reads so): 32 elements of tf32. Such a tile cannot also be read untransposed.
    """

    code = "E0715"
    title = "tile `{tile}` cannot be read transposed: {reason}"
    labels = (
        primary("at", "read with K outermost"),
        secondary("other", "read with K innermost"),
        secondary("declared", "declared here"),
    )
    help = "{hint}"
    tile: str
    reason: str
    hint: str | None
    at: Span
    other: Span | None
    declared: Span


class WriteShape(Message):
    """`write` puts a register tile into a shared tile of the same shape and element type."""

    code = "E0716"
    title = "`write` puts {value} into {destination}"
    labels = (primary("at", "the value is {value}"), secondary("target", "the tile is {destination}"))
    help = "{hint}"
    value: str
    destination: str
    hint: str | None
    at: Span
    target: Span


class StoreRowBytes(Message):
    """A register tile stored through TMA has rows that are not a multiple of 16 bytes long.

    TMA stores address memory in units of 16 bytes. `store.direct` lets each thread store its own elements, with any extent.
    """

    code = "E0717"
    title = "`store` of rows of {bytes} bytes, which is not a multiple of 16"
    labels = (primary("at", "{columns} elements of {dtype}: {bytes} bytes in a row"),)
    note = "TMA stores address memory in units of 16 bytes"
    help = "write `store.direct(...)`"
    bytes: int
    columns: int
    dtype: str
    at: Span


class TensorStride(Message):
    """A tensor that is copied by TMA has rows whose length in bytes is not a multiple of 16.

    A tensor map takes only strides that are a multiple of 16 bytes. Pad the rows, or store with `store.direct`.
    """

    code = "E0718"
    title = "tensor `{tensor}` has rows of {bytes} bytes, which TMA cannot address"
    labels = (
        primary("at", "the innermost dimension is {columns} elements of {dtype}: {bytes} bytes"),
        secondary("use", "copied by TMA here"),
    )
    note = "the strides of a tensor map are multiples of 16 bytes"
    tensor: str
    bytes: int
    columns: int
    dtype: str
    at: Span
    use: Span


class SharedMemory(Message):
    """The tiles, staging buffers and barriers of a kernel do not fit into the shared memory of one thread block.

    Most of it is pipeline stages times payload tiles. Use fewer stages or smaller tiles.
    """

    code = "E0719"
    title = "kernel `{kernel}` needs {bytes} bytes of shared memory, but a block has at most {most}"
    labels = (primary("at", "{over} bytes too many"), secondary("largest", "{share} of it"))
    note = "{list}"
    help = "{hint}"
    kernel: str
    bytes: int
    most: int
    over: int
    share: str | None
    list: str
    hint: str | None
    at: Span
    largest: Span | None


class TensorMemory(Message):
    """The accumulators of a kernel need more columns of tensor memory than there are.

    Tensor memory has 512 columns of 32 bits; an accumulator of N columns takes N of them per stage.
    """

    code = "E0720"
    title = "kernel `{kernel}` needs {columns} columns of tensor memory, but there are {most}"
    labels = (primary("at", "{own} columns: {count} of {each}{apart}"),)
    note = "{list}"
    help = "{hint}"
    kernel: str
    apart: str
    columns: int
    most: int
    own: int
    count: str
    each: int
    list: str | None
    hint: str | None
    at: Span


class NamedBarriers(Message):
    """Each role of several warps takes one of the 15 hardware barriers that the block itself does not use."""

    code = "E0721"
    title = "kernel `{kernel}` has {count} roles of several warps, but there are only {most} barriers for them"
    labels = (primary("at", "too many roles"),)
    help = "join roles, or give some of them one warp"
    kernel: str
    count: int
    most: int
    at: Span


class EmptyBuffer(Message):
    """A buffer that the kernel declares holds at least one tile; one per stage of the pipeline whose index picks it."""

    code = "E0722"
    title = "buffer `{buffer}` holds {count} tiles, but {need}"
    labels = (primary("at", "{count} tiles"), secondary("used", "picked by the index of a stage of `{pipeline}`"))
    note = "the index of the last stage would reach past the buffer"
    help = "declare `count={stages}`"
    buffer: str
    count: int
    need: str
    stages: int | None
    pipeline: str | None
    at: Span
    used: Span | None


class TileRows(Message):
    """A tile has more rows than one TMA copy takes, and no equal parts of it start at addresses that TMA can reach.

    One copy takes up to 256 rows; a taller tile is copied in equal parts. Each part must start at a multiple of 128 bytes in
    shared memory, so with rows shorter than 128 bytes the parts have a multiple of 2, 4 or 8 rows.
    """

    code = "E0723"
    title = "{tile} has {rows} rows, which cannot be copied in equal parts"
    labels = (primary("at", "{rows} rows of {columns} elements of {dtype}"),)
    note = "one copy takes up to 256 rows; equal parts of this tile need a number of rows that is a multiple of {step}"
    help = "use {fitting} rows"
    tile: str
    rows: int
    columns: int
    dtype: str
    step: int
    fitting: int
    at: Span


class CopyStart(Message):
    """A TMA copy starts inside a row at an element that is not a multiple of 16 bytes from the row's start.

    TMA reaches global memory in units of 16 bytes: 4 elements of 32 bits, 8 of 16, 16 of 8. The innermost coordinate must always
    be such a multiple. Sizes and scalar parameters are known only at launch and are taken to fit.
    """

    code = "E0724"
    title = "the innermost coordinate in `{tensor}` is not always a multiple of {unit}"
    labels = (primary("at", "counts elements of {dtype}: {unit} of them are 16 bytes"),)
    note = "TMA reaches memory in units of 16 bytes: the copy faults"
    help = "{hint}"
    tensor: str
    unit: int
    dtype: str
    at: Span
    hint: str | None


class StoreBefore(Message):
    """A TMA store starts before the first element of a dimension.

    Loads may start there and read zeros; stores may not. Elements past the end are clipped.
    """

    code = "E0725"
    title = "a store into `{tensor}` starts at a negative coordinate"
    labels = (primary("at", "before the first element"),)
    note = "TMA clips a store at the end of a dimension, not at its start"
    tensor: str
    at: Span


class StageGroups(Message):
    """The stages of a pipeline are a multiple of its k group size.

    With `k_group_size=G` one pair of barriers stands for G tiles of each payload member, so `stages=S` makes S / G group stages.
    """

    code = "E0731"
    title = "pipeline `{pipeline}` has {stages} stages, which do not divide into groups of {group}"
    labels = (primary("at", "groups of {group}"), secondary("counted", "{stages} stages"))
    note = "the barriers belong to whole groups: a part of a group would never be complete"
    help = "write `{fix}`"
    pipeline: str
    stages: int
    group: int
    fix: str
    at: Span
    counted: Span


class AsyncCopyShape(Message):
    """`cp.async(tile, tensor[i])` copies a run of a tensor of one dimension into a tile of one row. Larger tiles go by `tma.load`."""

    code = "E0771"
    title = "`cp.async` copies one row, from a tensor of one dimension"
    labels = (primary("at", "into a {tile}"), secondary("declared", "`{tensor}` has {dimensions}"))
    help = "use `tma.load`"
    tile: str
    tensor: str
    dimensions: str
    at: Span
    declared: Span


class AsyncCopyElement(Message):
    """cp.async moves 4, 8 or 16 bytes from an address that is a multiple of as many.

    An element of 4 or 8 bytes can start anywhere in its tensor; one of 1 or 2 bytes need not stand on a multiple of 4.
    """

    code = "E0772"
    title = "`cp.async` moves at least 4 bytes, and an element of {dtype} has {bytes}"
    labels = (primary("at", "copies elements of {bytes}"), secondary("declared", "declared here"))
    note = "a copy of 4 bytes from an address that is no multiple of 4 is a misaligned access"
    help = "declare it f32, or read it by `per_column(...)` or `tma.load`"
    dtype: str
    bytes: str
    at: Span
    declared: Span


class AsyncProxyOfCopy(Message):
    """A tile that `cp.async` fills is read by TMA or by an MMA.

    Both read through the async proxy, which does not see what threads wrote through the generic one unless a fence stands between;
    the threads that copy do not wait for their copies, so none of them could give it. Read the tile as a register tile.
    """

    code = "E0773"
    title = "`{tile}` is filled by `cp.async` and read by {reader}"
    labels = (primary("at", "read through the async proxy"), secondary("filled", "filled through the generic proxy"))
    note = "{reader} may read what stood there before the copies"
    help = "fill it by `tma.load`"
    tile: str
    reader: str
    at: Span
    filled: Span
