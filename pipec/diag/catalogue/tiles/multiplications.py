"""E07xx: the shapes and types that matrix multiplications take."""

from pipec.diag.message import Message, primary, replace, secondary
from pipec.source import Span


class AccumulatorRows(Message):
    """An accumulator has 64 or 128 rows: the M of one MMA, laid out over the 128 lanes of tensor memory.

    A taller tile takes several accumulators, one MMA each, or a pair of CTAs (`cta_group=2`), which works on 256 rows together.
    """

    code = "E0709"
    title = "the accumulator of `{buffer}` has {rows} rows"
    labels = (primary("at", "an accumulator has 64 or 128 rows"),)
    buffer: str
    rows: int
    at: Span


class MmaColumns(Message):
    """The N of an MMA, the number of columns of its accumulator, must be one that the hardware supports.

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
    """The hardware cannot multiply the types of the two operands of an MMA with each other.

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
    """The accumulator of an MMA has a type in which the hardware cannot accumulate products of these operands.

    f32 for all float operands; f16 also for f16 and narrower float operands; i32 for integer operands.
    """

    code = "E0714"
    title = "an MMA of {operands} operands cannot accumulate in {accumulator}"
    labels = (primary("at", "accumulates in {accumulator}"), secondary("declared", "declared as {accumulator}"))
    help = "declare the accumulator as `{declaration}`"
    edits = (replace("declared", "{declaration}"),)
    operands: str
    accumulator: str
    declaration: str
    at: Span
    declared: Span


class AccumulatorShare(Message):
    """The rows of an accumulator in registers cannot be divided among the warpgroups of its role.

    One `wgmma` gives a warpgroup (4 warps) 64 rows, so a role of 8 warps holds a multiple of 128 rows.
    """

    code = "E0741"
    title = "the {rows} rows of accumulator `{accumulator}` cannot be divided among {groups}"
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
    note = "about {reserve} are needed for everything else; what does not fit would be spilled to slow local memory"
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

    An instruction can use only the registers that the launch gives each thread: 65536, divided among the threads of the block in whole
    groups of 4 warps. `registers=` raises a role's budget afterwards, which leaves room for more accumulators, but not for a wider
    one: the assembler refuses the instruction. 256 columns of f32 take 128 registers and about 26 more, which are available to each
    thread of 12 warps; a 13th warp costs as much as 4.
    """

    code = "E0745"
    title = "an MMA of {columns} columns takes {needed} registers of each thread, which starts with {start}"
    labels = (
        primary("at", "accumulates in {columns} columns of {dtype}"),
        secondary("declared", "budgets of roles take effect only after the start"),
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
    """A transposed MMA operand (`.T`, stored with K outermost) has a type or row length that the MMA cannot read that way.

    MMAs in registers (sm_90a) read only 16-bit operands stored with K outermost. With accumulators in tensor memory, all types can be
    read so: 32-bit operands stored with K outermost need rows that are a multiple of 128 bytes (the 128-byte swizzle with 32-byte atoms
    is the only layout that the hardware supports here): 32 elements of tf32. Such a tile cannot also be read untransposed.
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
