"""Which parameter of a kernel buys most: each is moved by one step, ranked by the closed form, and the best is followed event by event, as
is the number of stages that would do.

What a step is worth is told where the values pass all checks and the events of the kernel with them were followed; the closed form only
says where to look. A report is to be had at once, so the work is bounded: another number of stages is followed on the kernel as it is
compiled; any other value needs the kernel to be typed anew, for as many values as the kernel's length allows, and checked and planned
anew, for the most promising.
"""

from collections.abc import Iterator, Mapping
from math import ceil

from pipec.diag.message import Failure
from pipec.driver import Compilation, carried_on, compile_source
from pipec.predict.closed import estimate
from pipec.predict.counting import workload
from pipec.predict.explanation import Tried, finding
from pipec.predict.following.main_loops import MainLoop
from pipec.predict.following.uses import Unpredictable
from pipec.predict.launch import Launch, Prediction, prediction
from pipec.predict.occupancy import shared_bytes, staging_bytes, tile_bytes
from pipec.predict.parameters import integers, mentions, stages_parameter, without_tuning
from pipec.predict.tile_loops import operations_in
from pipec.predict.workload import Workload
from pipec.record import record, replace
from pipec.sema import tree

_OPERATIONS = 220  # that are typed anew, all other kernels together
_FEWEST = 2  # other kernels that are typed, however long each is
_FEW = 16  # counts below it move by one, extents from there on are doubled and halved
_FOLLOWED = 2  # launches with what is advised or promises most, until one keeps the promise
_CHECKED = 2  # kernels that are checked and planned anew for that
_LONG = 48  # operations of a kernel beyond which that takes so long
_PROMISING = (0.02, 0.05)  # what the closed form must promise then, of other kernels and of those
WORTH = 0.01  # a gain below it is not told
_SAME_WORK = 0.9  # of the products inside the tensors; masks and edges cut tiles of other sizes differently
_FILLED = (
    0.7  # of all places for blocks, in all waves together; in a launch that does not reach it most is to be had from the grid
)
_LANES = 128  # of tensor memory, as many rows as an accumulator may have
_COMPUTING = ("work", "schedulers")  # bounds of loops whose threads set the pace


@record
class Variation:
    """`gain`: how much faster the launch is with this value, as a part; negative where it is slower. `followed`: the values pass all
    checks, and the launch with them was predicted like this one, with these `loops`; otherwise the closed form says so, and the checks
    have not seen them."""

    parameter: str
    value: int
    seconds: float
    gain: float
    followed: bool
    loops: tuple[MainLoop, ...] = ()


def variations(state: Compilation, name: str, found: Prediction) -> tuple[Variation, ...]:
    """The best first, by what is known of each. Values that the checks refuse, and kernels that do something else, are left out."""
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
    """How the loop goes with what there is to advise about its stages."""
    advised = advice(state, name, loop)
    if advised is not None and advised[1] == integers(state, name)[advised[0]]:
        return Tried(None, None, 0.0)
    for one in others:
        if one.followed and (one.parameter, one.value) == advised:
            same = (other.period for other in one.loops if (other.role, other.pipeline.name) == (loop.role, loop.pipeline.name))
            return Tried(f"{one.parameter}={one.value}", next(same, None), one.gain)
    return None


def advice(state: Compilation, name: str, loop: MainLoop) -> tuple[str, int] | None:
    """The parameter that says how many stages the loop's ring has, and a value that makes them enough, or as many as a block has room for,
    which may be those that it has; None where that is not what the loop waits for."""
    said = finding(loop)
    parameter = stages_parameter(state, name, loop.pipeline)
    if said.enough is None or said.gain < WORTH or parameter is None:
        return None
    value = integers(state, name)[parameter]
    each, rest = divmod(value, loop.pipeline.stages)  # a ring of groups has fewer stages than it is told
    most = loop.pipeline.stages + _room(state, name, parameter)
    stages = min(said.enough, most)
    return (parameter, stages * each) if not rest else None


def _room(state: Compilation, name: str, parameter: str) -> int:
    """How many more stages a block has room for, in all rings that the parameter is about."""
    kernel, plan = _tree(state, name), next(one for one in state.plans or () if one.kernel.name == name)
    rings = {one.name for one in kernel.pipelines if stages_parameter(state, name, one) == parameter}
    tiles = (one for one in kernel.buffers if one.owner is not None and one.owner.name in rings and one.space == "shared")
    stage = sum(tile_bytes(one.rows, one.columns, one.dtype.bits) for one in tiles) + len(rings) * _BARRIERS
    limit = plan.target.shared_bytes
    used = plan.interface.shared_bytes - staging_bytes(kernel, limit) + staging_bytes(kernel, 0)
    return max(0, limit - used) // stage


_BARRIERS = 16  # bytes of a stage


def _tree(state: Compilation, name: str) -> tree.Kernel:
    return next(one for one in state.trees or () if one.name == name)


class _Search:
    """Other values of parameters of one kernel. `tried`: those that are in `followed`, or refused."""

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
        """The gain for which a kernel is worth to be checked anew."""
        return _PROMISING[self._length > _LONG]

    @property
    def spent(self) -> bool:
        return len(self.followed) >= _FOLLOWED or self._checked >= _CHECKED

    def estimated(self) -> list[Variation]:
        """Parameters moved by one step, by the closed form. Where one way promises something, the other does not."""
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
        """Whether a value on the same side was followed: that says what the parameter is worth, and an estimate beside it could only
        contradict it."""
        usual = integers(self._state, self._name)[parameter]
        return any(one.parameter == parameter and (one.value > usual) == (value > usual) for one in self.followed)

    def _steps(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """One step up and one down, of parameters that do not say which problem is solved. First come those that are about what the launch
        waits for: if it does not fill the multiprocessors, its grid; if threads set the pace, how they compute."""
        values, where, found = integers(self._state, self._name), self._mentions, self._found
        # Whether more stages help the loops have said.
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
        """The rings that the parameter alone is about, if the code with more or fewer stages is the same; it is not where another one would
        be given back late (pipec.kir.plan.mma_waits)."""
        plan = next(one for one in self._state.plans or () if one.kernel.name == self._name)
        if any(row.mma_waits is not None and row.mma_waits.lagging is None for row in plan.roles):
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
        """None where analysis refuses the value, other tensors come of it, or a block has no room for it."""
        other = self._compiled(parameter, value)
        if other.failed or not other.trees:
            return None
        (kernel,) = other.trees
        if [tensor.shape for tensor in kernel.tensors] != [tensor.shape for tensor in self._kernel.tensors]:
            return None
        return workload(kernel, self._found.sizes, self._found.device.machine.multiprocessors) if self._fits(kernel) else None

    def _fits(self, kernel: tree.Kernel, stages: Mapping[str, int] | None = None) -> bool:
        """As far as the tree says: the checks know exactly."""
        target = self._state.target
        tensor = [one for one in kernel.buffers if one.space == "tensor" and one.alias is None]
        columns = sum(one.tensor_columns for one in tensor)
        scaled = any(isinstance(one, tree.Mma) and one.scales for role in kernel.roles for one in operations_in(role.body))
        rows = max((one.rows for one in tensor), default=0)
        fits = columns + scaled <= target.tensor_columns or not tensor  # factors lie beside the accumulators
        return fits and rows <= _LANES and shared_bytes(kernel, stages) <= target.shared_bytes

    def follow(self, parameter: str, value: int) -> None:
        """Unless the checks refuse the value."""
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
        if rings and value >= integers(self._state, self._name)[parameter]:  # and there is room for them, says advice()
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
