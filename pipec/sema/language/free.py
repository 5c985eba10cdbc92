"""Operations that belong to no pipeline: copies, multiplications, stores, conditions, the grid; the tile of another CTA."""

from pipec.sema.language.operation import TILE, Operation

FREE_ROWS = (
    Operation(
        "tma.load",
        ("",),
        'tma.load(tile, tensor[i, ...], stage.mbar(), multicast="y", cache="evict_last"); all but the first two may be left out',
        "tma_load",
        signals="full, by bytes",
        document="global to shared memory; one thread; outside the tensor reads as zero; `cache`: what the L2 evicts first",
    ),
    Operation(
        "tma.store",
        ("",),
        'tma.store(tensor[i, ...], tile, reduce="add", cache="evict_first")',
        "tma_store",
        document="shared to global memory; one thread; clipped at the tensor's edge; `reduce` and `cache` as in `store`",
    ),
    Operation(
        "mma",
        ("",),
        "mma(accumulator, a, b, sfa, sfb, accumulate=condition, sfb_row=row)",
        "mma",
        document="accumulator[M, N] (+)= a[M, K] @ b[N, K].T; one thread, or with an accumulator in registers all threads of the "
        "role, and then `a` may be a register tile; `.T` gives a tile stored with K outermost; with scale tiles each block of K is "
        "multiplied by its factors",
    ),
    Operation(
        "accumulator",
        ("",),
        "accumulator(dtype, rows, columns)",
        "register_accumulator",
        document="zeros in the role's registers, for `mma` to add up in (sm_90a)",
    ),
    Operation(
        "mma.commit",
        ("",),
        "mma.commit(stage.mbar())",
        "commit",
        signals="when all earlier MMAs of the role finish",
        stage="signals",
        document="makes the barrier receive one arrival when the MMAs issued so far are complete",
    ),
    Operation(
        "store",
        ("",),
        'store(tensor[i, j], tile, reduce="add", rows=count, cache="evict_first")',
        "store",
        document="a register tile through shared memory and TMA; with `reduce` (add, min, max) combined with the existing values; with "
        "`rows` only the tile's first rows (all, where it is at least as many), by the threads when those are not all; `cache`: what the "
        "L2 evicts first; `tile.T` stores rows as columns",
    ),
    Operation(
        "store.direct",
        ("",),
        'store.direct(tensor[i, j], tile, reduce="add", rows=count, at=numbers)',
        "store_direct",
        document="a register tile by each thread's own stores; any alignment; `reduce`, `rows` and `.T` as in `store`; with `at` and "
        "`reduce` the tile's rows go anywhere, as `load` takes them",
    ),
    Operation(
        "programmatic_launch",
        ("",),
        "programmatic_launch(tensor, ...)",
        "programmatic",
        document="the kernel may start before the preceding grids have ended; its roles wait for them before they touch any tensor "
        "but these, which no preceding grid writes",
    ),
    Operation(
        "griddepcontrol.wait",
        ("",),
        "griddepcontrol.wait()",
        "await_grids",
        waits="the preceding grids",
        document="the preceding grids have ended, and what they wrote is seen; all threads of the role; derived where a role has none",
    ),
    Operation(
        "griddepcontrol.launch_dependents",
        ("",),
        "griddepcontrol.launch_dependents()",
        "launch_dependents",
        document="dependent grids may start once every block did this or ended; any thread; derived where a programmatic kernel has "
        "none",
    ),
    Operation(
        "semaphore",
        ("",),
        "semaphore(counter[i, ...], turn, turns)",
        "semaphore",
        waits="the counter, until it is `turn`",
        signals="the counter, at the end: the next turn",
        document="blocks take turns for the length of a `with`: each sees what the earlier ones wrote; all threads of the role",
    ),
    Operation(
        "registers",
        ("",),
        "registers(tile)",
        "registers",
        document="the tile's values now, kept in registers under the name they are assigned to, which may be assigned again",
    ),
    Operation(
        "write",
        ("",),
        "write(tile, value)",
        "write",
        document="a register tile into a producer stage's tile, in shared or tensor memory, or into an accumulator in registers",
    ),
    Operation(
        "any",
        ("",),
        "any(condition)",
        "vote_any",
        waits="the role's other threads",
        document="a vote: whether the condition holds anywhere in a tile or, of a scalar, in any thread; all threads of the role vote, and "
        "are told the same",
    ),
    Operation(
        "all",
        ("",),
        "all(condition)",
        "vote_all",
        waits="the role's other threads",
        document="as `any`: whether it holds everywhere, in every thread",
    ),
    Operation(
        "column_sum",
        ("",),
        "column_sum(tile)",
        "reduce_columns",
        waits="the role's other threads",
        document="the sum of each column, a tile of one row: the threads of the role, which have the tile's rows between them, exchange "
        "their parts through shared memory now",
    ),
    Operation(
        "column_max",
        ("",),
        "column_max(tile)",
        "reduce_columns",
        waits="the role's other threads",
        document="as `column_sum`: the largest of each column",
    ),
    Operation(
        "column_min",
        ("",),
        "column_min(tile)",
        "reduce_columns",
        waits="the role's other threads",
        document="as `column_sum`: the smallest of each column",
    ),
    Operation("static_assert", ("",), 'static_assert(condition, "text")', "assert", document="a compile-time check"),
    Operation(
        "assume",
        ("",),
        "assume(condition)",
        "assume",
        document="a condition on sizes and integer parameters: every launch is checked, and the proof uses it",
    ),
    Operation("grid", ("",), "grid(x, y, z)", "grid", document="how many blocks (CTAs) run"),
    Operation(
        "of",
        (TILE,),
        "of(rank)",
        "of_cta",
        document='the same tile in another CTA of the cluster, of a pipeline with `scope="cluster"`; read by the role\'s threads',
    ),
    Operation("cluster", ("",), "cluster(x, y, z)", "cluster", document="how many of them form a cluster, along each axis"),
)
