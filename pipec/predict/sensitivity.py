"""The most valuable parameters of a kernel: each is changed by one step and ranked by the closed form; the best is followed event by
event, as is a sufficient number of stages.

The gain of a step is reported if the values pass all checks and the kernel was followed with them; the closed form only suggests
candidates. A report must be fast, so the work is bounded: another number of stages is followed on the kernel as compiled; any other
value requires analysing the kernel again, for as many values as the kernel's length allows, and checking and planning it again, for the
most promising.
"""

from collections.abc import Iterator, Mapping
from math import ceil

from pipec.diag.message import Failure
from pipec.driver import Compilation, carried_on, compile_source
from pipec.garbage import uncollected
from pipec.predict.closed import estimate
from pipec.predict.counting import workload
from pipec.predict.explanation import Tried, finding
from pipec.predict.following.events import Engine
from pipec.predict.following.main_loops import MainLoop
from pipec.predict.following.uses import Unpredictable
from pipec.predict.launch import Launch, Prediction, prediction
from pipec.predict.occupancy import shared_bytes, staging_bytes, tile_bytes
from pipec.predict.parameters import integers, mentions, stages_parameter, without_tuning
from pipec.predict.tile_loops import operations_in
from pipec.predict.workload import Workload
from pipec.record import record, replace
from pipec.sema import tree

_OPERATIONS = 220  # operations analysed again, over all variants
_FEWEST = 1  # variant that is analysed, however long it is
_FEW = 16  # smaller values change by one, larger ones are doubled and halved
_FOLLOWED = 2  # launches with the recommended or most promising value, until one confirms the gain
_CHECKED = 2  # variants that are checked and planned again for that
_LONG = 48  # operations of a kernel beyond which that takes too long
_PROMISING = (0.02, 0.05)  # the gain that the closed form must then predict, for other kernels and for those
WORTH = 0.01  # smaller gains are not reported
_SAME_WORK = 0.9  # of the products inside the tensors; masks and edges clip tiles of other sizes differently
_FILLED = 0.7  # of all block slots, in all waves together; a launch below that gains most from its grid
_LANES = 128  # of tensor memory: the maximum number of rows of an accumulator
_COMPUTING = (Engine.WORK, Engine.SCHEDULERS)  # bounds of loops whose threads determine the pace


@record
class Variation:
    """`gain`: the relative speed-up of the launch with this value; negative if it is slower. `followed`: the values pass all checks, and
    the launch was predicted with them like this one, with these `loops`; otherwise it is an estimate of the closed form, and has not
    been checked."""

    parameter: str
    value: int
    seconds: float
    gain: float
    followed: bool
    loops: tuple[MainLoop, ...] = ()


@uncollected()
def variations(state: Compilation, name: str, found: Prediction) -> tuple[Variation, ...]:
    """The best first. Values that the checks reject, and kernels that compute something else, are left out."""
    search = _Search(state, name, found)
    advised = dict.fromkeys(advice(state, name, loop) for loop in found.loops)
    for one in advised:
        if one is not None and one[1] != integers(state, name)[one[0]]:
            search.follow(*one)
    estimated = sorted(search.estimated(), key=lambda one: one.seconds)
    for other in estimated:
        if other.gain < search.promising or search.spent or any(known.gain >= other.gain for known in search.followed):
            break
        search.follow(other.parameter, other.value)
    others = [one for one in estimated if (one.parameter, one.value) not in search.tried]
    return tuple(sorted((*search.followed, *others), key=lambda one: one.seconds))


def tried(state: Compilation, name: str, loop: MainLoop, others: tuple[Variation, ...]) -> Tried | None:
    """The result for the loop with the recommended number of stages."""
    advised = advice(state, name, loop)
    if advised is not None and advised[1] == integers(state, name)[advised[0]]:
        return Tried(None, None, 0.0)
    for one in others:
        if one.followed and (one.parameter, one.value) == advised:
            same = (other.period for other in one.loops if (other.role, other.pipeline.name) == (loop.role, loop.pipeline.name))
            return Tried(f"{one.parameter}={one.value}", next(same, None), one.gain)
    return None


def advice(state: Compilation, name: str, loop: MainLoop) -> tuple[str, int] | None:
    """The parameter for the number of stages of the loop's ring, and a value that makes them sufficient, or as many as a block has room
    for, possibly the current number; None if stages are not the bound."""
    said = finding(loop)
    parameter = stages_parameter(state, name, loop.pipeline)
    if said.enough is None or said.gain < WORTH or parameter is None:
        return None
    value = integers(state, name)[parameter]
    each, rest = divmod(value, loop.pipeline.stages)  # a ring of groups has fewer stages than its parameter
    most = loop.pipeline.stages + _room(state, name, parameter)
    stages = min(said.enough, most)
    return (parameter, stages * each) if not rest else None


def _room(state: Compilation, name: str, parameter: str) -> int:
    """How many more stages a block has room for, over all rings that the parameter affects."""
    kernel, plan = _tree(state, name), next(one for one in state.plans or () if one.kernel.name == name)
    rings = {one.name for one in kernel.pipelines if stages_parameter(state, name, one) == parameter}
    tiles = (one for one in kernel.buffers if one.owner is not None and one.owner.name in rings and one.space == "shared")
    stage = sum(tile_bytes(one.rows, one.columns, one.dtype.bits) for one in tiles) + len(rings) * _BARRIERS
    limit = plan.target.shared_bytes
    used = plan.interface.shared_bytes - staging_bytes(kernel, limit) + staging_bytes(kernel, 0)
    return max(0, limit - used) // stage


_BARRIERS = 16  # bytes per stage


def _tree(state: Compilation, name: str) -> tree.Kernel:
    return next(one for one in state.trees or () if one.name == name)


class _Search:
    """Other values of parameters of one kernel. `tried`: those in `followed`, or rejected."""

    def __init__(self, state: Compilation, name: str, found: Prediction) -> None:
        assert state.file is not None
        self._state, self._name, self._found = state, name, found
        self._file = without_tuning(state.file)
        self._mentions = mentions(state, name)
        self._kernel = _tree(state, name)
        self._length = sum(1 for role in self._kernel.roles for _ in operations_in(role.body))
        self._typed: dict[tuple[str, int], Compilation] = {}
        self._checked = 0
        self.tried: set[tuple[str, int]] = set()
        self.followed: list[Variation] = []

    @property
    def promising(self) -> float:
        """The gain for which a kernel is worth checking again."""
        return _PROMISING[self._length > _LONG]

    @property
    def spent(self) -> bool:
        return len(self.followed) >= _FOLLOWED or self._checked >= _CHECKED

    def estimated(self) -> list[Variation]:
        """Parameters changed by one step, estimated by the closed form. If one direction is promising, the other is not."""
        found, estimated = self._found, []
        usual = estimate(found.work, found.device, found.stated).seconds
        left = max(_FEWEST, _OPERATIONS // max(1, self._length))
        for parameter, values in self._steps():
            rings = self._rings(parameter)
            for value in values:
                if (parameter, value) in self.tried or self._answered(parameter, value):
                    continue
                if rings:
                    work = self._with_stages(dict.fromkeys(rings, value))
                elif left:
                    left -= 1
                    work = self._counted(parameter, value)
                else:
                    break
                if work is None:
                    continue
                part = estimate(work, found.device, found.stated).seconds / usual
                if _as_much(work, found.work):
                    estimated.append(Variation(parameter, value, found.seconds * part, 1 / part - 1, followed=False))
                if part < 1 / (1 + WORTH) or (part == 1.0 and work.shared_bytes == found.work.shared_bytes):
                    break
        return estimated

    def _answered(self, parameter: str, value: int) -> bool:
        """Whether a value on the same side was followed: that determines the value of the parameter, and an estimate could only
        contradict it."""
        usual = integers(self._state, self._name)[parameter]
        return any(one.parameter == parameter and (one.value > usual) == (value > usual) for one in self.followed)

    def _steps(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """One step up and one down, for parameters that do not define the problem. First those that affect the bottleneck: the grid, if
        the launch does not fill the multiprocessors; how threads compute, if they determine the pace."""
        values, where, found = integers(self._state, self._name), self._mentions, self._found
        # The loops have shown whether more stages help.
        names = sorted((one for one in values if not where.tensors[one]), key=lambda one: where.only_stages_of(one) is not None)
        if any(finding(loop).bound in _COMPUTING for loop in found.loops):
            names.sort(key=lambda one: one not in where.only_in_roles)
        if found.waves < _FILLED * ceil(found.waves):
            names.sort(key=lambda one: not where.grid[one])
        for parameter in names:
            value = values[parameter]
            steps = (value + 1, value - 1) if value < _FEW else (value * 2, value // 2)
            yield parameter, tuple(step for step in steps if step > 0)

    def _rings(self, parameter: str) -> frozenset[str]:
        """The rings that only this parameter affects, if the code is the same with other numbers of stages; it is not if a stage would
        be released late (pipec.kir.plan.mma_waits)."""
        plan = next(one for one in self._state.plans or () if one.kernel.name == self._name)
        if any(row.mma_waits is not None and not row.mma_waits.lagging for row in plan.roles):
            return frozenset()
        rings = self._mentions.only_stages_of(parameter) or frozenset()
        pipelines = [one for one in self._kernel.pipelines if one.name in rings]
        tiles = [one for one in self._kernel.buffers if one.owner in pipelines]
        grouped = any(one.k_group_size > 1 for one in pipelines)
        elsewhere = any(one.space != "shared" for one in tiles) or {one.owner for one in tiles} != {*pipelines}
        return frozenset() if grouped or elsewhere else rings

    def _with_stages(self, stages: Mapping[str, int]) -> Workload | None:
        if not self._fits(self._kernel, stages):
            return None
        work = self._found.work
        rings = {ring: stages.get(ring, count) for ring, count in work.stages.items()}
        return replace(work, stages=rings, shared_bytes=shared_bytes(self._kernel, stages))

    def _counted(self, parameter: str, value: int) -> Workload | None:
        """None if the analysis rejects the value, the tensors change, or a block has no room for it."""
        other = self._compiled(parameter, value)
        if other.failed or not other.trees:
            return None
        (kernel,) = other.trees
        if [tensor.shape for tensor in kernel.tensors] != [tensor.shape for tensor in self._kernel.tensors]:
            return None
        return workload(kernel, self._found.sizes, self._found.device.machine.multiprocessors) if self._fits(kernel) else None

    def _fits(self, kernel: tree.Kernel, stages: Mapping[str, int] | None = None) -> bool:
        """As far as the tree shows: the checks decide exactly."""
        target = self._state.target
        tensor = [one for one in kernel.buffers if one.space == "tensor" and one.alias is None]
        columns = sum(one.tensor_columns for one in tensor)
        scaled = any(isinstance(one, tree.Mma) and one.scales for role in kernel.roles for one in operations_in(role.body))
        rows = max((one.rows for one in tensor), default=0)
        fits = columns + scaled <= target.tensor_columns or not tensor  # factors are next to the accumulators
        return fits and rows <= _LANES and shared_bytes(kernel, stages) <= target.shared_bytes

    def follow(self, parameter: str, value: int) -> None:
        """Unless the checks reject the value."""
        self.tried.add((parameter, value))
        try:
            one = self._predicted(parameter, value)
        except (Failure, Unpredictable):
            return
        if one is not None:
            gain = self._found.seconds / one.seconds - 1
            self.followed.append(Variation(parameter, value, one.seconds, gain, followed=True, loops=one.loops))

    def _predicted(self, parameter: str, value: int) -> Prediction | None:
        found, rings = self._found, self._rings(parameter)
        if rings and value >= integers(self._state, self._name)[parameter]:  # advice() has found room for them
            stages = dict.fromkeys(rings, value)
            plan = next(one for one in self._state.plans or () if one.kernel.name == self._name)
            work = self._with_stages(stages)
            return Launch(self._kernel, plan, found.sizes, found.device, found.stated, stages, work).predict(drawn=False)
        self._checked += 1
        other = carried_on(self._compiled(parameter, value), "analyse", "limits")
        if other.failed or not other.plans:
            return None
        return prediction(other, self._name, found.sizes, None, found.stated, alone=True)

    def _compiled(self, parameter: str, value: int) -> Compilation:
        key = parameter, value
        if key not in self._typed:
            options = self._state.options
            given = replace(options, constants={**options.constants, parameter: value}, kernel=self._name)
            self._typed[key] = compile_source(self._state.source, given, "analyse", self._file)
        return self._typed[key]


def _as_much(work: Workload, usual: Workload) -> bool:
    return work.operations * work.filled >= _SAME_WORK * usual.operations * usual.filled
