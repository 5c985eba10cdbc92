"""E07xx: the resources of a CTA: memory, warps, registers, named barriers."""

from pipec.diag.message import Message, primary, secondary, set_keyword
from pipec.source import Span


class StageCount(Message):
    """A pipeline has at most 32 stages. Two to eight hide the latency of loads; more only take shared memory.

    With `k_group_size=G` the limit applies to the group stages, `stages` divided by G.
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
    note = "there would be no barrier and no slot: the first acquire would wait on memory that belongs to something else"
    help = "write `stages=1`, or `stages=2` for a producer that runs ahead"
    edits = (set_keyword("at", "stages", "1"),)
    pipeline: str
    stages: int
    at: Span


class WarpCount(Message):
    """A role has between 1 and 32 warps of 32 threads, and a thread block has at most 1,024 threads in all its roles."""

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
    labels = (primary("at", "its roles run concurrently"), secondary("roles", "part of the block's threads"))
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
    title = "role `{role}` requests {registers} registers per thread"
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
    and at most 248. Registers that one role releases (`setmaxnreg.dec`) another may take (`setmaxnreg.inc`), but no others: a role
    that requests more waits for registers that never become free, so the kernel hangs. Budgets hold for whole groups of 4 warps; a
    group without one keeps what the launch gave it. Give copying roles few (`registers=40`), computing roles the rest.

    If all roles have the same budget, every thread starts with it, so that more blocks fit a multiprocessor, and no registers move.
    """

    code = "E0706"
    title = "the register budgets of kernel `{kernel}` add up to {total}, but a block starts with {most}"
    labels = (primary("at", "its roles together request too many"), secondary("roles", "has a budget"))
    note = "{threads} threads start with {launch} registers each{consequence}. Budgets hold for groups of 4 warps: {list}"
    help = "{hint}"
    kernel: str
    total: int
    most: int
    threads: int
    launch: int
    consequence: str
    list: str
    hint: str | None
    at: Span
    roles: tuple[Span, ...]


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
    """Each role with several warps uses one of the 15 named barriers that the block itself does not use, to let its threads meet.

    A role of one warp needs none.
    """

    code = "E0721"
    title = "kernel `{kernel}` has {count} roles with several warps, but there are only {most} barriers for them"
    labels = (primary("at", "too many roles"),)
    help = "join roles, or give some of them one warp"
    kernel: str
    count: int
    most: int
    at: Span


class EmptyBuffer(Message):
    """A buffer that the kernel declares needs at least one tile for each stage of the pipeline whose index selects it."""

    code = "E0722"
    title = "buffer `{buffer}` holds {count}, but {need}"
    labels = (primary("at", "{count}"), secondary("used", "indexed by a stage of `{pipeline}`"))
    note = "the index of the last stage would reach past the buffer"
    help = "declare `count={stages}`"
    buffer: str
    count: str
    need: str
    stages: int | None
    pipeline: str | None
    at: Span
    used: Span | None


class StageGroups(Message):
    """The number of stages of a pipeline must be a multiple of its k group size.

    With `k_group_size=G` one pair of barriers covers G tiles of each payload member, so `stages=S` makes S / G group stages.
    """

    code = "E0731"
    title = "pipeline `{pipeline}` has {stages} stages, which do not divide into groups of {group}"
    labels = (primary("at", "groups of {group}"), secondary("counted", "{stages} stages"))
    note = "the barriers belong to whole groups: an incomplete group would never complete its barrier"
    help = "write `{fix}`"
    pipeline: str
    stages: int
    group: int
    fix: str
    at: Span
    counted: Span
