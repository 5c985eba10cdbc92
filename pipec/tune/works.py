"""What a block of a kernel does with the values of each candidate. A kernel is typed once for candidates that differ in how many stages
its pipelines have, and in nothing else: the tree is the same but for that number."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from pipec.driver import Compilation
from pipec.predict.counting import workload
from pipec.predict.occupancy import shared_bytes
from pipec.predict.parameters import mentions
from pipec.predict.workload import Workload
from pipec.record import record, replace
from pipec.sema import tree

Value = tuple[str, object]


@record
class Typed:
    """A candidate's kernel: the tree, but for the stages of the pipelines that `stages` has."""

    kernel: tree.Kernel
    stages: Mapping[str, int]

    @property
    def shared_bytes(self) -> int:
        """What a block takes at least."""
        return shared_bytes(self.kernel, self.stages or None)


def typed(
    compilation: Compilation,
    name: str,
    candidates: Sequence[tuple[Value, ...]],
    kernel_of: Callable[[tuple[Value, ...]], tree.Kernel | None],
) -> Iterator[tuple[tuple[Value, ...], Typed]]:
    """Of those candidates that `kernel_of` types, in no order."""
    rings: dict[str, frozenset[str] | None] = {}
    if candidates and candidates[0]:
        where = mentions(compilation, name)
        rings = {parameter: where.only_stages_of(parameter) for parameter, _ in candidates[0]}
    groups: dict[tuple[Value, ...], list[tuple[Value, ...]]] = {}
    for candidate in candidates:
        groups.setdefault(tuple(value for value in candidate if not rings[value[0]]), []).append(candidate)
    for group in groups.values():
        kernel = kernel_of(group[0])
        if kernel is not None and all(_only_counted(kernel, rings[parameter] or frozenset()) for parameter, _ in group[0]):
            for candidate in group:
                stages = {ring: int(str(value)) for parameter, value in candidate for ring in rings[parameter] or ()}
                yield candidate, Typed(kernel, stages)
            continue
        for candidate in group:
            own = kernel if candidate is group[0] else kernel_of(candidate)
            if own is not None:
                yield candidate, Typed(own, {})


def _only_counted(kernel: tree.Kernel, rings: frozenset[str]) -> bool:
    """Whether another number of stages means more tiles in shared memory, and nothing else."""
    pipelines = [one for one in kernel.pipelines if one.name in rings]
    tiles = [one for one in kernel.buffers if one.owner in pipelines]
    counted = all(one.k_group_size == 1 for one in pipelines) and all(one.space == "shared" for one in tiles)
    return counted and {one.owner for one in tiles} == {*pipelines}


class Works:
    """Workloads of kernels for the same sizes, on so many multiprocessors."""

    def __init__(self, sizes: Mapping[str, int], multiprocessors: int) -> None:
        self._sizes, self._multiprocessors = sizes, multiprocessors
        self._counted: dict[int, list[Workload]] = {}  # by the kernel's identity

    def of(self, one: Typed) -> Workload:
        known = self._counted.setdefault(id(one.kernel), [])
        for work in known:
            other = replace(work, stages={**work.stages, **_among(one.stages, work)}, shared_bytes=one.shared_bytes)
            if other.held == work.held:  # which blocks run together decides what they share
                return other
        known.append(workload(one.kernel, self._sizes, self._multiprocessors, one.stages))
        return known[-1]


def _among(stages: Mapping[str, int], work: Workload) -> dict[str, int]:
    return {ring: count for ring, count in stages.items() if ring in work.stages}
