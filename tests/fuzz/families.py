"""Programs that grow in one respect: each family takes a size and says the same thing that many times, or that deep.

What a pass does with size n and with 2n shows whether its work grows out of proportion. `largest` is the size at which the text has
about 100 KB. Names say what grows.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fuzz import growing_ptx as ptx
from fuzz import growing_sources as sources

LARGEST_TEXT = 100_000  # bytes


@dataclass(frozen=True)
class Family:
    """`make` gives a program of size n; `command` are the words in front of its file, `after` those behind it."""

    name: str
    make: Callable[[int], str]
    command: tuple[str, ...] = ("compile",)
    after: tuple[str, ...] = ("--allow-undecided",)
    suffix: str = ".pipe"

    def largest(self, limit: int = LARGEST_TEXT) -> int:
        """The size at which the text comes nearest to `limit` bytes."""
        size = 1
        while len(self.make(2 * size)) <= limit and size < 1 << 20:
            size *= 2
        step = size // 2
        while step:
            if len(self.make(size + step)) <= limit:
                size += step
            step //= 2
        return size


_CHECK = ("check",)
_SIM = ("sim",)
_RUN, _ON_SIM = ("run",), ("--device", "sim")


def _sim(name: str, make: Callable[[int], str], *after: str) -> Family:
    return Family(name, make, _SIM, after or ("--grid", "1"), ".ptx")


FAMILIES = (
    Family("helpers", sources.helpers),
    Family("helpers of tiles", sources.tile_helpers),
    Family("nested calls", sources.nested_calls),
    Family("tiles doubled", sources.tiles_doubled("t = t + t")),
    Family("tiles tripled", sources.tiles_doubled("t = t * t + t")),
    Family("tiles selected", sources.tiles_doubled("t = select(t > 0.0, t, t - 1.0)")),
    Family("tiles named", sources.tiles_named),
    Family("tiles reduced", sources.reduced),
    Family("stores", sources.stores),
    Family("scalars doubled", sources.scalars_doubled),
    Family("scalars in loops", sources.scalars_in_loops),
    Family("scalars in a cluster", sources.scalars_in_cluster),
    Family("reassigned in a loop", sources.reassigned_in_loop),
    Family("branches", sources.branches),
    Family("elif", sources.elif_chain),
    Family("elif as a tree", sources.elif_chain, ("compile", "--emit", "ast")),
    Family("nested ifs", sources.nested_ifs),
    Family("nested loops", sources.nested_loops),
    Family("loops", sources.loops),
    Family("unrolled", sources.unrolled),
    Family("unrolled and nested", sources.unrolled_nested),
    Family("columns", sources.columns),
    Family("pipelines", sources.pipelines),
    Family("stages", sources.stages),
    Family("branching pipeline", sources.branching_pipeline),
    Family("different loops", sources.different_loops),
    Family("nested different loops", sources.nested_different_loops),
    Family("roles", sources.roles),
    Family("kernels", sources.kernels),
    Family("kernels of helpers", sources.kernels_of_helpers),
    Family("parameters", sources.parameters),
    Family("constants", sources.constants),
    Family("powers", sources.powers),
    Family("texts", sources.texts),
    Family("sums", sources.sum),
    Family("conditions", sources.conditions),
    Family("conditionals", sources.conditionals),
    Family("brackets", sources.brackets),
    Family("open brackets", sources.open_brackets),
    Family("long name", sources.long_name),
    Family("number", sources.number),
    Family("names alike", sources.names_alike),
    Family("mistakes", sources.mistakes),
    Family("comments", sources.comments),
    Family("text", sources.text_lines),
    Family("slices", sources.tensor_slices),
    Family("selects", sources.semaphores),
    Family("continued sums", sources.continued("n +", "n")),
    Family("continued signs", sources.continued("-", "n")),
    Family("continued choices", sources.continued("1 if n > 0 else", "n")),
    Family("continued nots", sources.continued("not", "n > 0")),
    Family("values and branches", sources.values_and_branches),
    Family("values and loops", sources.values_and_loops),
    Family("chain of roles", sources.chain_of_roles, _CHECK),
    Family("crossed pipelines", sources.crossed_pipelines, _CHECK),
    Family("reference of views", sources.reference("a", ".T"), _RUN, _ON_SIM),
    Family("reference of products", sources.reference("a", "@a"), _RUN, _ON_SIM),
    Family("reference lines", sources.reference_lines, _RUN, _ON_SIM),
    Family("wide tiles", sources.wide_tiles),
    Family("kept tiles", sources.kept_tiles),
    Family("kept names", sources.kept_names),
    Family("withs", sources.withs),
    _sim("call tree", ptx.call_tree),
    _sim("indirect calls", ptx.indirect_calls),
    _sim("PTX adds", ptx.ptx_lines("add.u32 %r1, %r1, {i};")),
    _sim("PTX labels", ptx.labels),
    _sim("PTX backward labels", ptx.backward_labels),
    _sim("PTX branch table", ptx.branch_table),
    _sim("PTX constants", ptx.ptx_lines("mov.b64 %d1, {i}00000;")),
    _sim("PTX registers", ptx.ptx_lines(".reg .b64 %x{i};\nmov.b64 %x{i}, 1;")),
    _sim("PTX register range", ptx.registers),
    _sim("PTX variables", ptx.ptx_lines(".shared .b8 s{i}[1];\nmov.b32 %r1, s{i};")),
    _sim("PTX shared arrays", ptx.shared_arrays),
    _sim("PTX global arrays", ptx.global_arrays),
    _sim("PTX initial values", ptx.initial_values),
    _sim("PTX shared size", ptx.array_of(".shared .b8 s[{n}];\n")),
    _sim("PTX global size", ptx.array_of(".global .b8 s[{n}];\n")),
    _sim("PTX local size", ptx.array_of(".local .b8 s[{n}];\n")),
    _sim("PTX constant size", ptx.array_of(".const .b8 s[{n}];\n")),
    _sim("PTX dimensions", ptx.array_of(".global .b8 s[1]" + "[{n}]" * 40 + ";\n")),
    _sim("PTX alignment", ptx.array_of(".global .align {n} .b8 s[1];\n")),
    _sim("PTX printf widths", ptx.printf("99999999")),
    _sim("PTX printf width", ptx.printf(".2000000000")),
    _sim("PTX printf stars", ptx.printf("*")),
    _sim("PTX signs", ptx.prefixed("-")),
    _sim("PTX nots", ptx.prefixed("!~")),
    _sim("PTX choices", ptx.prefixed("1 ? 2 : ")),
    _sim("PTX casts", ptx.prefixed("(.s64)")),
    _sim("PTX nested values", ptx.nested_initial_values),
    _sim("PTX local arrays", ptx.local_arrays),
    _sim("PTX chain of calls", ptx.chain_of_calls),
    _sim("PTX scopes", ptx.scopes),
    _sim("PTX brackets", ptx.nested_brackets),
    _sim("PTX vectors", ptx.nested_vectors),
    _sim("PTX shifts", ptx.big_shift),
    _sim("PTX endless loop", ptx.endless),
    _sim("PTX entries", ptx.kernel_entries, "--kernel", "k0", "--grid", "1"),
    _sim("PTX grid", ptx.ptx_lines("add.u32 %r1, %r1, {i};"), "--grid", "2147483647"),
)
