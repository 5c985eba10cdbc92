"""The time of a block of a PTX kernel, from its barriers: the network used for proofs (pipec.verify), with a time for each event.

Every process goes through its states with numbers for sizes and block indices; waits, arrivals, bytes and the code between them
(`code.py`) have the costs in `device.py`. CTAs of a cluster have engines of their own; those that the network represents by one are
followed once, and each of them loads its part of what all receive. The widths of tensor-map boxes, the sizes of tensors and the number
of blocks are not in the text: rows of 128 bytes and inputs in memory are assumed, and the number of blocks is given.
"""

from collections.abc import Mapping
from math import ceil, prod

from pipec.predict.bounds import largest, powered
from pipec.predict.device import Device
from pipec.predict.following.uses import Stretch
from pipec.predict.occupancy import resident_blocks
from pipec.predict.ptx.answers import answered
from pipec.predict.ptx.code import Code, Unclear
from pipec.predict.ptx.multiprocessor import UNIFORM, Multiprocessor
from pipec.record import record
from pipec.verify.network import Arrive, Network, Test, Wait
from pipec.verify.terms import Symbol, symbols_in, symbols_of

_BARRIER_BYTES = 8
# The number of parts beyond which the reader folds a form into a name, which suffices for a proof but has no value here: the number of
# tiles of a block has 60.
FORMS = 2000


@record
class PtxPrediction:
    """For one launch. `busy`: cycles of each engine for one block; `moved`: bytes that it loads; `flops`: its products, in 16-bit
    operations.

    `differ`: the work of a block depends on its number; blocks from the start of the grid were followed.
    """

    kernel: str
    device: Device
    clock: float
    given: Mapping[str, int]
    blocks: int
    held: int
    cycles: float
    seconds: float
    bounds: Mapping[str, float]
    busy: Mapping[str, float]
    moved: float
    flops: float
    stretches: tuple[Stretch, ...]
    differ: bool

    @property
    def bound_by(self) -> str:
        return largest(self.bounds, self.seconds, self.device)

    @property
    def waits_for(self) -> str:
        """The busiest engine, if it is busy most of the time, else the latency of the rings."""
        engine, cycles = max(self.busy.items(), key=lambda item: item[1], default=("", 0.0))
        return engine if cycles >= _MOST * self.cycles else "latency"


_MOST = 0.9


def names_of(network: Network) -> list[str]:
    """What a block's control flow depends on: parameters, and launch values."""
    found = {
        symbol.name
        for process in network.processes
        for state in process.states
        if isinstance(state.action, Test)
        for symbol in symbols_in(state.action.condition)
        if ":" not in symbol.name and symbol.name.partition(".")[0] not in UNIFORM
    }
    return sorted(found)


def _differ(network: Network) -> bool:
    """Whether a block's control flow depends on its index."""
    found: set[Symbol] = set()
    for process in network.processes:
        for state in process.states:
            match state.action:
                case Test(condition=condition, yes=yes, no=no):
                    found |= symbols_in(condition)
                    edges = [yes, no]
                case Wait(edge=edge) | Arrive(edge=edge):
                    edges = [edge]
                case _:
                    edges = []
            found.update(*(symbols_of(value) for edge in edges for _, value in edge.values if value is not None))
    return any(symbol.name.partition(".")[0] in ("%ctaid", "%clusterid") for symbol in found)


def predict_ptx(
    network: Network,
    text: str,
    device: Device,
    given: Mapping[str, int],
    blocks: int | tuple[int, int, int] | None,
    clock: float | None,
) -> PtxPrediction:
    """At the clock that launches can sustain, unless one is given. `given`: values of `names_of`; `blocks`: of the launch, along x if
    one number, one on each multiprocessor if None. Raises Unclear."""
    if clock is not None:
        return _at_clock(network, text, device, given, blocks, clock)
    nominal = _at_clock(network, text, device, given, blocks, device.clock)
    sustained = device.machine.sustained
    part = sustained.clock(nominal.bounds["power"] / nominal.seconds) if sustained is not None else 1.0
    return nominal if part == 1.0 else _at_clock(network, text, device, given, blocks, device.clock * part)


def _at_clock(
    network: Network,
    text: str,
    device: Device,
    given: Mapping[str, int],
    blocks: int | tuple[int, int, int] | None,
    clock: float,
) -> PtxPrediction:
    threads = sum(process.threads for process in network.processes if 0 in process.ranks)
    count = device.machine.multiprocessors
    grid = blocks if isinstance(blocks, tuple) else (count if blocks is None else blocks, 1, 1)
    launched = prod(grid)
    last = max((at + _BARRIER_BYTES for ring in network.rings if ring.kind == "mbarrier" for at in ring.instances), default=0)
    code = Code(text, network.name, threads)
    held = resident_blocks(last, threads, code.registers, code.tensor_columns)
    size = prod(code.cluster)
    places = device.machine.at_a_time(size)
    each = min(held, ceil(launched / places))
    taking_over = answered(network, code.cluster)
    running = launched if taking_over is None else min(launched, places * each)
    clusters, at_once = max(1, launched // size), max(1, running // size)
    several = taking_over is None and running > places * each and _differ(network)
    firsts = all_over(grid, code.cluster) if several else [0]
    busy_part = min(1.0, launched / count)

    def followed_from(first: int, held: int, busy: float) -> Multiprocessor:
        return Multiprocessor(taking_over or network, code, device.at(clock), given, held, busy, grid, running, first)

    runs = [followed_from(first, each, busy_part) for first in firsts]
    ends = [run.run() for run in runs]
    waves = running / (places * each)
    longest = runs[ends.index(max(ends))]
    if min(ends) > _EVEN * max(ends):
        full, rest = divmod(running, places * each)
        cycles = max(ends) * full
        if rest:  # the last wave leaves some multiprocessors, and some of the L2's rate, to others
            cycles += followed_from(firsts[0], ceil(rest / places), min(1.0, rest / count)).run() if full else max(ends)
    else:  # blocks follow each other without waiting for the longest, and at the end some slots idle
        cycles = max(max(ends), sum(ends) / len(ends) * (waves + _IDLE))
    moved, flops = sum(run.moved for run in runs), sum(run.flops for run in runs)
    if not any(run.carried for run in runs) and not flops:
        raise Unclear(
            0, "no barrier of it carries copies or products: its threads take the time, and what they compute is not followed"
        )
    # The part of the launch that was followed: blocks, or the tiles that these took over.
    followed = each * len(runs) if taking_over is None else sum(ceil((clusters - number) / at_once) for number in range(each))
    part = followed / clusters
    bounds = {"multiprocessors": cycles / clock, "power": powered(device, flops / part, 0.0)}
    launch = device.launch - (device.overlap if code.overlaps else 0.0)
    seconds = launch + (max(bounds.values()) if device.machine.sustained is None else cycles / clock)
    busy = {name: found / each / size for name, found in longest.busy.items()}
    return PtxPrediction(
        network.name, device, clock, given, launched, each, cycles, seconds, bounds, busy, moved / part / launched,
        flops / part / launched, tuple(longest.stretches), taking_over is None and not several and _differ(network),
    )  # fmt: skip


def all_over(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> list[int]:
    """Numbers of clusters, one from each quarter of each axis."""
    x, y, z = (max(1, blocks // extent) for blocks, extent in zip(grid, cluster, strict=True))
    at = ((extent * (2 * quarter + 1) // 8 for extent, quarter in zip((x, y, z), each, strict=True)) for each in _QUARTERS)
    return [here + x * (row + y * layer) for here, row, layer in at]


_QUARTERS = ((0, 1, 2), (1, 3, 0), (2, 0, 3), (3, 2, 1))
_EVEN = 0.99
_IDLE = 0.5  # of an average block's time


def short_name(parameter: str, kernel: str) -> str:
    """What a size may be called: a dimension of a kernel of pipec by its name in the source."""
    return parameter.removeprefix(f"{kernel}_dim_").removeprefix(f"{kernel}_")


def parameter_of(name: str, names: list[str], kernel: str) -> str | None:
    """The parameter that a size names: itself, or pipec's name for a dimension of a kernel."""
    return next((one for one in names if one in (name, f"{kernel}_dim_{name}", f"{kernel}_{name}")), None)
