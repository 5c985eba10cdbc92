"""Turns: a block waits until a counter in global memory equals its index along an axis of the grid, or its number among the blocks along
several, and passes the turn on once. All earlier blocks then do the same, so it suffices that blocks start in order."""

from collections.abc import Iterable, Iterator

from pipec.verify.logic import System
from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.graph import EXIT, Graph
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.processes.walk import Walk
from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.opcodes import Kind
from pipec.verify.reader.text.writes import Writes
from pipec.verify.reader.values.machine import Machine
from pipec.verify.reader.values.surroundings import RingAction, Surroundings, ThreadsDiffer
from pipec.verify.terms import Apply, Choose, Compare, Floor, Formula, Linear, Symbol, add, atom, scale, symbols_of

_EVENTS = frozenset({Kind.OBSERVE, Kind.PUBLISH})
_FOR_ALL = frozenset({"gpu", "sys", "volatile"})


def turns(flow: Flow, around: Surroundings) -> set[int]:
    """The instructions, by number, of polling loops whose turn is certain to come if blocks start in index order."""
    if around.ranks > 1:
        return set()
    try:
        polls = list(_taken_once(flow.graph, around))
    except Unreadable:
        return set()
    counters = [counter for counter, _ in polls]
    if len(set(counters)) < len(counters):
        return set()
    return {at for _, at in polls}


def walks(graph: Graph, around: Surroundings) -> Iterator[Walk]:
    """What each class of threads does with counters in global memory: polls and stores; with the branches on which they depend."""
    flow = Flow(graph, _EVENTS)
    around.within |= flow.within
    work = [tuple(range(around.threads))]
    while work:
        machine = Machine(around, work.pop(), 0)
        machine.partial = False
        walk = Walk(flow, machine, "")
        try:
            walk.run()
        except ThreadsDiffer as split:
            work += split.groups
            continue
        yield walk


def _taken_once(graph: Graph, around: Surroundings) -> Iterator[tuple[str, int]]:
    """The counters with the instructions, by number, at which the block waits, if the protocol is respected; otherwise raises
    Unreadable."""
    for walk in walks(graph, around):
        events = _sequence(walk)
        if events and (len(walk.machine.threads) > 1 or len(events) % 2):
            raise Unreadable(graph.code[events[0][0]].line, "turns of several threads are not understood")
        for (at, wait), (passing, on) in zip(events[::2], events[1::2], strict=True):
            if not (_is_shared_word(graph.code[at]) and _is_shared_word(graph.code[passing])):
                raise Unreadable(graph.code[at].line, "a counter of turns that is no word for all blocks is not understood")
            counter = _one_turn(around, wait, on)
            if not Writes(around.kernel, around.interface.tensors).only_at(counter, {passing}):
                raise Unreadable(graph.code[at].line, "the counter is written elsewhere, too")
            yield counter, at


def _is_shared_word(one: Instruction) -> bool:
    """Whether it is a load or store of 32 bits of global memory that other blocks store or see: a byte never becomes 256."""
    return "global" in one.parts and one.parts[-1] in ("b32", "u32", "s32") and not _FOR_ALL.isdisjoint(one.parts)


def _sequence(walk: Walk) -> list[tuple[int, RingAction]]:
    """The turn operations of the class, if they are the same on every path through the kernel: instructions, by number, and actions."""
    before: dict[int, list[tuple[int, RingAction]]] = {walk.start.target: []}
    work = [walk.start.target]
    end: list[tuple[int, RingAction]] = []
    while work:
        number = work.pop()
        node = walk.nodes[number]
        turn = node.act is not None and not isinstance(node.act.ring, int)  # barrier waits terminate, as the network shows
        passed = before[number]
        if node.act is not None and turn:
            passed = [*passed, (walk.number_of(node), node.act)]
        if node.block == EXIT:
            end = passed
        for way in node.edges:
            if way.target not in before:
                before[way.target] = passed
                work.append(way.target)
            elif before[way.target] != passed:
                raise Unreadable(node.line, "whether a turn is taken depends on the sizes")
    return end


def _one_turn(around: Surroundings, wait: RingAction, on: RingAction) -> str:
    """The pointer of the counter: a block waits for its number along some axes, and passes the turn to the next number."""
    match wait.ring, on.ring:
        case (("poll", Linear() as where, Linear() as turn), ("pass", there, int() | Linear() as value)) if where == there:
            pass
        case _:
            raise Unreadable(1, "a turn that is not passed on after it was taken is not understood")
    axes = _axes(around, turn)
    pointers = [one.name for one, times in where.terms if times == 1 and isinstance(one, Symbol) and one.name in around.pointers]
    if not axes or len(pointers) != 1 or not _apart(around, where, axes):
        raise Unreadable(1, "turns that are no places along axes of the grid are not understood")
    number = Linear(value) if isinstance(value, int) else value
    if not _passes_on(around, turn, number, axes[-1]):
        raise Unreadable(1, "the turn may be passed on to another block than the next")
    return pointers[0]


def _axes(around: Surroundings, turn: Linear) -> str:
    """The axes along which the turn counts the blocks, as the grid does: x fastest, then y, then z. The block with the turn before stands
    at the same place along the other axes, so it has a smaller number. Empty if the turn is no such count."""
    axes, blocks = "", 1
    factors = dict(turn.terms)
    for axis, extent in zip("xyz", around.interface.launch, strict=True):
        if blocks and factors.get(Symbol(f"%ctaid.{axis}")) == blocks:
            axes += axis
            # The next axis counts whole lines of blocks along this one, of a number that the launch cannot change.
            blocks *= extent.constant if extent is not None and not extent.terms else 0
    return axes if axes and turn.constant == 0 and len(axes) == len(factors) else ""


def _apart(around: Surroundings, where: Linear, axes: str) -> bool:
    """Whether exactly the blocks along the axes share the counter: every other block index is an array index of its own, the last one
    (times the size of a counter) or one with a stride. What else the address is made of is the same in all blocks: not how often a loop
    has run, say, which its name does not tell."""
    apart = {axis: Symbol(f"%ctaid.{axis}") for axis in "xyz" if axis not in axes}
    if not all(_is_of_launch(around, one) for one in symbols_of(where).difference(apart.values())):
        return False
    ways: list[object] = []
    for other, place in apart.items():
        indices: list[object] = []
        for one, _ in where.terms:
            if one == place:
                indices.append("last")
            elif isinstance(one, Apply) and one.function == "mul.lo.s64" and atom(place) in one.arguments:
                indices += [stride for stride in one.arguments if stride != atom(place)]
            elif isinstance(one, (Apply, Floor, Choose)) and place in symbols_of(atom(one)):
                return False
        if len(indices) > 1 or not indices and around.arithmetic.ranges[f"%nctaid.{other}"][1] > 1:
            return False
        ways += indices
    strides = [one for one in ways if isinstance(one, Linear)]
    return len(set(ways)) == len(ways) and all(_is_of_launch(around, one) for stride in strides for one in symbols_of(stride))


def _is_of_launch(around: Surroundings, symbol: Symbol) -> bool:
    """Whether it is the same in all blocks."""
    return symbol.name in around.kernel.parameters or symbol.name.startswith("%nctaid.")


def _passes_on(around: Surroundings, turn: Linear, value: Linear, last: str) -> bool:
    """Whether the turn passed on is the next one whenever there is a next block. `last`: the axis along which the turn advances most."""
    blocks = Symbol(f"%nctaid.{last}")
    together = scale(atom(blocks), dict(turn.terms)[Symbol(f"%ctaid.{last}")])
    facts = list(_ranges(around, (*symbols_of(turn), *symbols_of(value), blocks)))
    extent = around.interface.launch["xyz".index(last)]
    if extent is not None:
        facts += [Compare("eq", add(extent, atom(blocks), -1)), *_ranges(around, symbols_of(extent))]
    another = Compare("ge", add(add(together, turn, -1), Linear(-2)))
    return System([*facts, another]).entails(Compare("eq", add(value, add(turn, Linear(1)), -1)))


def _ranges(around: Surroundings, symbols: Iterable[Symbol]) -> Iterator[Formula]:
    for symbol in set(symbols):
        if symbol.name in around.arithmetic.ranges:
            low, high = around.arithmetic.ranges[symbol.name]
            yield Compare("ge", add(atom(symbol), Linear(-low)))
            yield Compare("ge", add(Linear(high), atom(symbol), -1))
