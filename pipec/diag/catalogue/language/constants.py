"""E02xx: values that are known while compiling."""

from pipec.diag.message import Message, primary
from pipec.source import Span


class NotComptime(Message):
    """Tile sizes, stage counts, warps and everything else that shapes the generated code are fixed when the kernel is compiled:
    literals, compile-time parameters in `[...]`, `comptime` constants and arithmetic over them."""

    code = "E0208"
    title = "{what} must be known at compile time"
    labels = (primary("at", "this is only known when the kernel runs"),)
    help = "{hint}"
    what: str
    at: Span
    hint: str | None = None


class UnknownConstant(Message):
    """A constant given from outside (`-D NAME=VALUE`, `constants={...}`) must be a compile-time parameter of the kernel."""

    code = "E0217"
    title = "no kernel has a compile-time parameter `{name}`"
    note = "it was given from outside as {name}={value}; the kernels have {known}"
    help = "{instead}"
    name: str
    value: str
    known: str
    instead: str | None = None


class BadConstant(Message):
    """A value given for a compile-time parameter (`-D BM=64`, `constants={"BM": 64}`) has another type than the parameter, or a
    parameter without a default was given none.

    The type stands behind the colon, and names are looked up among the language's:

        # -D BM=128 -D FAST=true -D OUT=f32
        kernel copy[BM: int, FAST: bool = False, OUT: dtype = bf16](x: tensor[f32, M, K], y: tensor[OUT, M, K]):
    """

    code = "E0218"
    title = "compile-time parameter `{name}` {problem}"
    subject = "a value does not fit a compile-time parameter"
    labels = (primary("at", "declared here"),)
    name: str
    problem: str
    at: Span


class AssertionFailed(Message):
    """A `static_assert(condition, "text")` of the kernel's author does not hold for these compile-time parameters; the title is its text.

    Choose other values with `-D NAME=VALUE`. Among the candidates of a `tune` statement, those that fail are dropped silently.
    """

    code = "E0223"
    title = "{text}"
    subject = "a `static_assert` does not hold"
    labels = (primary("at", "this assertion does not hold"),)
    note = "compile-time values: {values}"
    text: str
    values: str
    at: Span


class NotLaunchUniform(Message):
    """A value that the host needs before the kernel starts depends on something that only running threads know.

    The grid, the numbers of tiles of a scheduler and the conditions of `assume` are computed on the host from dimensions, integer
    parameters and constants. Values that depend on the block belong in the roles, or in a name of the kernel:

        grid(ceildiv(M, 128))
        m = block.x * 128
    """

    code = "E0227"
    title = "{what} cannot be computed before the launch"
    labels = (primary("at", "{found}"),)
    note = "the host computes it from sizes, integer parameters and constants, by + - * // % min max ceildiv"
    what: str
    found: str
    at: Span


class HostValue(Message):
    """The number of the GPU's multiprocessors is known on the host, where the grid is computed, but not in the kernel.

    The grid, or the `blocks` of a tile scheduler, may use it; a role reads the number of blocks instead:

        grid(min(tiles, gpu.multiprocessors))

        role load(warps=1) produces input:
            for t in range(block.x, tiles, grid.x):
                load_tile(t)
    """

    code = "E0296"
    title = "`{name}` is known to the host only"
    labels = (primary("at", "neither the compiler nor a running thread knows it"),)
    help = "write it in `grid(...)` or as `blocks` of a `TileScheduler`; `grid.x` tells a role how many blocks run"
    name: str
    at: Span


class NotBlockUniform(Message):
    """A name of the kernel depends on something that is not the same in all of its roles and threads.

    Such a name stands for its expression, which every role that uses it evaluates: sizes, parameters, constants, the index of the block
    (`block.x`, `cta.rank`) and elements of tensors at such places give all of them the same value. A thread's index does not.

        m = block.x * BM                      # right: all roles work on the same tile
        length = load(lengths[block.x])       # right: each role that uses it reads it at its start

        role load(warps=1) produces input:
            lane = lane_id()                  # of a thread: in the roles that need it
    """

    code = "E0239"
    title = "{what} cannot be computed outside of a role"
    labels = (primary("at", "{found}"),)
    help = "move the assignment into the roles that use it"
    what: str
    found: str
    at: Span
