"""Which parameter of a kernel buys most: each is moved by one step, ranked by the closed form, and the best is followed event by event, as
is the number of stages that would do.

What a step is worth is told where the values pass all checks and the events of the kernel with them were followed; the closed form, which
takes a twentieth of that time, only says where to look.
"""

from collections.abc import Iterator, Mapping

from pipec.diag.message import Failure
from pipec.driver import Compilation, compile_source
from pipec.predict.closed import estimate
from pipec.predict.counting import workload
from pipec.predict.explanation import Tried, finding
from pipec.predict.following.main_loops import MainLoop
from pipec.predict.launch import Prediction, prediction
from pipec.predict.occupancy import staging_bytes, tile_bytes
from pipec.predict.workload import Workload
from pipec.record import record, replace
from pipec.sema import tree
from pipec.syntax import ast

_MOST = 16  # other kernels that are looked at
_FEW = 16  # counts below it move by one, extents from there on are doubled and halved
_FOLLOWED = 2  # launches with what is advised or promises most, until one keeps the promise
_TRIED = 4  # and those that the checks refuse
WORTH = 0.01  # a gain below it is not told
_SAME_WORK = 0.9  # of the products inside the tensors; masks and edges cut tiles of other sizes differently


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
    assert state.file is not None
    search = _Search(state, _without_tuning(state.file), name, found)
    advised = dict.fromkeys(advice(state, name, loop) for loop in found.loops)
    for one in advised:
        if one is not None and one[1] != integers(state, name)[one[0]]:
            search.follow(*one)
    estimated = sorted(search.estimated(), key=lambda one: one.seconds)
    for other in estimated:
        if other.gain < WORTH or search.spent or any(known.gain >= other.gain for known in search.followed):
            break
        if (other.parameter, other.value) not in search.tried:
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
    assert state.plans is not None
    plan = next(one for one in state.plans if one.kernel.name == name)
    tree_of = next(one for one in state.trees or () if one.name == name)
    rings = {one.name for one in tree_of.pipelines if stages_parameter(state, name, one) == parameter}
    tiles = (one for one in tree_of.buffers if one.owner is not None and one.owner.name in rings and one.space == "shared")
    stage = sum(tile_bytes(one.rows, one.columns, one.dtype.bits) for one in tiles) + len(rings) * _BARRIERS
    limit = plan.target.shared_bytes
    used = plan.interface.shared_bytes - staging_bytes(tree_of, limit) + staging_bytes(tree_of, 0)
    return max(0, limit - used) // stage


_BARRIERS = 16  # bytes of a stage


class _Search:
    """Other values of parameters of one kernel. `tried`: those that are in `followed`, or refused."""

    def __init__(self, state: Compilation, file: ast.File, name: str, found: Prediction) -> None:
        self._state, self._file, self._name, self._found = state, file, name, found
        self.tried: set[tuple[str, int]] = set()
        self.followed: list[Variation] = []
        self._idle: set[str] = set()  # parameters that a step of changes nothing, or what is computed

    @property
    def spent(self) -> bool:
        return len(self.followed) >= _FOLLOWED or len(self.tried) >= _TRIED

    def estimated(self) -> list[Variation]:
        """Each parameter moved by one step, by the closed form."""
        found, estimated = self._found, []
        most = self._state.target.shared_bytes
        usual = estimate(found.work, found.device).seconds
        for parameter, value in list(_steps(self._state, self._name))[:_MOST]:
            work = self._work(parameter, value) if parameter not in self._idle else None
            if work is None:
                continue
            part = estimate(work, found.device).seconds / usual
            if part == 1.0 and work.shared_bytes == found.work.shared_bytes:
                self._idle.add(parameter)
            if _as_much(work, found.work) and work.shared_bytes <= most:
                estimated.append(Variation(parameter, value, found.seconds * part, 1 / part - 1, followed=False))
        return estimated

    def _work(self, parameter: str, value: int) -> Workload | None:
        """None where analysis refuses the value, or other tensors come of it, as from the width of a head."""
        other = self._compiled(parameter, value, "analyse")
        if other.failed or not other.trees or self._state.trees is None:
            return None
        (kernel,) = other.trees
        own = next(one for one in self._state.trees if one.name == self._name)
        if [tensor.shape for tensor in kernel.tensors] != [tensor.shape for tensor in own.tensors]:
            self._idle.add(parameter)
            return None
        return workload(kernel, self._found.sizes, self._found.device.machine.multiprocessors)

    def follow(self, parameter: str, value: int) -> None:
        """Unless the checks refuse the value."""
        self.tried.add((parameter, value))
        other = self._compiled(parameter, value, "limits")
        if other.failed or not other.plans:
            return
        found = self._found
        try:
            one = prediction(other, self._name, found.sizes, None, found.clock, alone=True)
        except Failure:
            return
        gain = found.seconds / one.seconds - 1
        self.followed.append(Variation(parameter, value, one.seconds, gain, followed=True, loops=one.loops))

    def _compiled(self, parameter: str, value: int, until: str) -> Compilation:
        options = self._state.options
        given = replace(options, constants={**options.constants, parameter: value}, kernel=self._name)
        return compile_source(self._state.source, given, until, self._file)


def _as_much(work: Workload, usual: Workload) -> bool:
    return work.operations * work.filled >= _SAME_WORK * usual.operations * usual.filled


def _without_tuning(file: ast.File) -> ast.File:
    """The lists of values to choose from have been read; combining them anew for each value takes longer than all else."""

    def without(kernel: ast.Kernel) -> ast.Kernel:
        return replace(kernel, body=tuple(one for one in kernel.body if not isinstance(one, ast.Tune)))

    return replace(file, kernels=tuple(map(without, file.kernels)))


def _steps(state: Compilation, name: str) -> Iterator[tuple[str, int]]:
    for parameter, value in integers(state, name).items():
        steps = (value + 1, value - 1) if value < _FEW else (value * 2, value // 2)
        yield from ((parameter, step) for step in steps if step > 0)


def integers(state: Compilation, name: str) -> Mapping[str, int]:
    """The compile-time parameters that are numbers in the file or set from outside; those worked out from others follow them."""
    kernel = _kernel(state, name)
    found = {}
    for constant in kernel.constants if kernel is not None else ():
        given = state.options.constants.get(constant.name.name)
        value = given if given is not None else constant.default.value if isinstance(constant.default, ast.Number) else None
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            found[constant.name.name] = value
    return found


def stages_parameter(state: Compilation, name: str, pipeline: tree.Pipeline) -> str | None:
    """The parameter that the declaration of a pipeline takes as the number of its stages."""
    kernel = _kernel(state, name)
    for statement in kernel.body if kernel is not None else ():
        match statement:
            case ast.Assign(target=ast.Name(name=target), value=ast.Call(arguments=arguments)) if target == pipeline.name:
                for argument in arguments:
                    if argument.name == "stages" and isinstance(argument.value, ast.Name):
                        word = argument.value.name
                        return word if word in integers(state, name) else None
            case _:
                pass
    return None


def _kernel(state: Compilation, name: str) -> ast.Kernel | None:
    return next((one for one in state.file.kernels if one.name.name == name), None) if state.file is not None else None
