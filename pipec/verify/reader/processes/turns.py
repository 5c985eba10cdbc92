"""Turns: a block waits until a counter in global memory equals its index along an axis of the grid, or its number among the blocks along
several, and passes the turn on once. All earlier blocks then do the same, so it suffices that blocks start in order."""

from collections.abc import Iterator
from itertools import combinations

from pipec.record import record
from pipec.verify.logic import System
from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.graph import EXIT, Graph
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.processes.courses import Course, Place, is_shared
from pipec.verify.reader.processes.states import Node
from pipec.verify.reader.processes.walk import Walk
from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.opcodes import Kind
from pipec.verify.reader.text.writes import Writes
from pipec.verify.reader.values.machine import Machine
from pipec.verify.reader.values.parameters import in_ranges
from pipec.verify.reader.values.surroundings import RingAction, Surroundings, ThreadsDiffer
from pipec.verify.terms import RANGES, Apply, Choose, Compare, Floor, Formula, Linear, Symbol, add, atom, scale, symbols_of

_EVENTS = frozenset({Kind.OBSERVE, Kind.PUBLISH})
_FOR_ALL = frozenset({"gpu", "sys", "volatile"})


def turns(flow: Flow, around: Surroundings) -> set[int]:
    """The instructions, by number, of polling loops whose turn is certain to come if blocks start in index order."""
    if around.ranks > 1:
        return set()
    try:
        counters = [one for walk in walks(flow.graph, around) for one in _counters(flow.graph, around, walk)]
    except Unreadable:
        return set()
    if not _are_apart(counters):
        return set()
    passing = {
        pointer: {one.passes for one in counters if one.pointer == pointer} for pointer in {one.pointer for one in counters}
    }
    writes = Writes(around.kernel, around.interface.tensors)
    if not all(writes.only_at(pointer, numbers) for pointer, numbers in passing.items()):
        return set()
    return {one.waits for one in counters}


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


@record
class _Counter:
    """Where turns are counted: the pointer, the address, whether that changes from turn to turn of a loop, the walk that takes them, and
    the instructions, by number, that wait and pass on."""

    pointer: str
    where: Linear
    moves: bool
    walk: Walk
    waits: int
    passes: int


def _counters(graph: Graph, around: Surroundings, walk: Walk) -> list[_Counter]:
    """Where the thread takes turns, if it respects the protocol; otherwise raises Unreadable."""
    pairs = _pairs(walk)
    if not pairs:
        return []
    if len(walk.machine.threads) > 1:
        raise Unreadable(walk.nodes[pairs[0][0]].line, "turns of several threads are not understood")
    axes = "".join(sorted({axis for wait, _ in pairs for axis in _axes(around, _awaited(walk.nodes[wait]))}))
    course = None if _on_every_path(walk) else Course(around, walk, {number for pair in pairs for number in pair}, axes)
    found, places = [], dict[str, dict[int, Place]]()
    for waiting, passing in pairs:
        at, on = walk.number_of(walk.nodes[waiting]), walk.number_of(walk.nodes[passing])
        if not (_is_shared_word(graph.code[at]) and _is_shared_word(graph.code[on])):
            raise Unreadable(graph.code[at].line, "a counter of turns that is no word for all blocks is not understood")
        pointer, where, place = _one_turn(around, walk.nodes[waiting].act, walk.nodes[passing].act, course)
        moves = course is not None and not course.registers.isdisjoint(symbols_of(where))
        found.append(_Counter(pointer, where, moves, walk, at, on))
        places.setdefault(pointer, {})[waiting] = place
    if course is None:
        return found
    for each in places.values():
        if len({(one.rest, one.stride) for one in each.values()}) > 1:
            raise Unreadable(walk.nodes[min(each)].line, "counters in places of several kinds are not understood")
        course.check_once(each)
    return found


def _are_apart(counters: list[_Counter]) -> bool:
    """Whether no two are one counter: those of a walk that comes to one after the other have been compared."""
    for one, other in combinations(counters, 2):
        if one.pointer == other.pointer and (one.walk is not other.walk or not (one.moves or other.moves)):
            apart = add(one.where, other.where, -1)
            if one.moves or other.moves or apart.terms or not apart.constant:
                return False
    return True


def _is_shared_word(one: Instruction) -> bool:
    """Whether it is a load or store of 32 bits of global memory that other blocks store or see: a byte never becomes 256."""
    return "global" in one.parts and one.parts[-1] in ("b32", "u32", "s32") and not _FOR_ALL.isdisjoint(one.parts)


def _pairs(walk: Walk) -> list[tuple[int, int]]:
    """The states in which the thread waits for a turn, each with one in which it passes it on."""
    holding: dict[int, int | None] = {walk.start.target: None}
    pairs: dict[tuple[int, int], None] = {}
    work = [walk.start.target]
    while work:
        number = work.pop()
        node, held = walk.nodes[number], holding[number]
        if _is_turn(node):
            assert node.act is not None
            if node.act.waits != (held is None):
                raise Unreadable(node.line, "a turn that is not passed on after it was taken is not understood")
            if held is not None:
                pairs[held, number] = None
            held = number if held is None else None
        if node.block == EXIT and held is not None:
            raise Unreadable(node.line, "a turn that is never passed on is not understood")
        for way in node.edges:
            if way.target not in holding:
                holding[way.target] = held
                work.append(way.target)
            elif holding[way.target] != held:
                raise Unreadable(node.line, "whether a turn has been taken depends on the way")
    return [*pairs]


def _is_turn(node: Node) -> bool:
    """Waits for barriers terminate, as the network shows."""
    return node.act is not None and not isinstance(node.act.ring, int)


def _on_every_path(walk: Walk) -> bool:
    """Whether the thread takes the same turns in the same order on every path through the kernel."""
    before: dict[int, tuple[int, ...]] = {walk.start.target: ()}
    work = [walk.start.target]
    while work:
        number = work.pop()
        node = walk.nodes[number]
        passed = (*before[number], walk.number_of(node)) if _is_turn(node) else before[number]
        for way in node.edges:
            if way.target not in before:
                before[way.target] = passed
                work.append(way.target)
            elif before[way.target] != passed:
                return False
    return True


def _awaited(node: Node) -> Linear:
    """The turn that a state waits for."""
    match node.act.ring if node.act is not None else None:
        case ("poll", Linear(), Linear() as turn):
            return turn
    raise Unreadable(node.line, "turns that are no places along axes of the grid are not understood")


def _one_turn(
    around: Surroundings, wait: RingAction | None, on: RingAction | None, course: Course | None
) -> tuple[str, Linear, Place]:
    """The pointer of the counter, its address, and its place: a block waits for its number along some axes, and passes the turn to the next
    number. `course`: what the block does if it does not take the same turns on every path."""
    match wait and wait.ring, on and on.ring:
        case (("poll", Linear() as where, Linear() as turn), ("pass", there, int() | Linear() as value)) if where == there:
            pass
        case _:
            raise Unreadable(1, "a turn that is not passed on after it was taken is not understood")
    axes = _axes(around, turn)
    pointers = [one.name for one, times in where.terms if times == 1 and isinstance(one, Symbol) and one.name in around.pointers]
    place = _moved(where, course.registers if course else frozenset())
    if not axes or len(pointers) != 1 or place is None or not _apart(around, place, axes, course):
        raise Unreadable(1, "turns that are no places along axes of the grid are not understood")
    number = Linear(value) if isinstance(value, int) else value
    if not _passes_on(around, turn, number, axes[-1]):
        raise Unreadable(1, "the turn may be passed on to another block than the next")
    return pointers[0], where, place


def _moved(where: Linear, registers: frozenset[Symbol]) -> Place | None:
    """None if what changes from turn to turn of a loop is neither a sum nor an index along another dimension than the last."""
    moving = [(one, times) for one, times in where.terms if not registers.isdisjoint(symbols_of(atom(one)))]
    rest = tuple(term for term in where.terms if term not in moving)
    match moving:
        case [(Apply("mul.lo.s64", (left, right)), _)]:
            index, stride = (left, right) if registers.isdisjoint(symbols_of(right)) else (right, left)
            plain, needs = _exact(index)
            fixed = registers.isdisjoint(symbols_of(stride)) and _is_sum(plain, registers)
            return Place(Linear(where.constant, rest), stride, plain, needs) if fixed else None
    plain, needs = _exact(Linear(where.constant, tuple(moving)))
    return Place(Linear(0, rest), None, plain, needs) if _is_sum(plain, registers) else None


def _is_sum(form: Linear, registers: frozenset[Symbol]) -> bool:
    return all(isinstance(one, Symbol) or registers.isdisjoint(symbols_of(atom(one))) for one, _ in form.terms)


def _exact(form: Linear) -> tuple[Linear, tuple[Formula, ...]]:
    """The form with numbers that are reduced to 32 bits as they are, and that they fit."""
    least, most = RANGES["s32"]
    found, needs = Linear(form.constant), list[Formula]()
    for one, times in form.terms:
        match one:
            case Apply("s32", (inner,)):
                found = add(found, inner, times)
                needs += [Compare("ge", add(Linear(-least), inner)), Compare("ge", add(Linear(most), inner, -1))]
            case _:
                found = add(found, atom(one), times)
    return found, tuple(needs)


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


def _apart(around: Surroundings, place: Place, axes: str, course: Course | None) -> bool:
    """Whether exactly the blocks along the axes share the counter: every other block index is an array index of its own, the last one
    (times the size of a counter) or one with a stride, and what changes from turn to turn of a loop another one; or the turns of the loop
    are dealt out to the blocks along that axis. What else the address is made of is the same in all blocks."""
    apart = {axis: Symbol(f"%ctaid.{axis}") for axis in "xyz" if axis not in axes}
    registers = course.registers if course else frozenset()
    fixed = symbols_of(place.rest).difference(apart.values()) | symbols_of(place.index).difference(registers)
    if not all(_is_of_launch(around, one) for one in fixed):
        return False
    ways: list[object] = [place.stride] if place.stride is not None else ["last"] if place.index.terms else []
    for other, index in apart.items():
        indices: list[object] = []
        for one, _ in place.rest.terms:
            if one == index:
                indices.append("last")
            elif isinstance(one, Apply) and one.function == "mul.lo.s64" and atom(index) in one.arguments:
                indices += [stride for stride in one.arguments if stride != atom(index)]
            elif isinstance(one, (Apply, Floor, Choose)) and index in symbols_of(atom(one)):
                return False
        dealt = course is not None and course.is_dealt_out(place.index, other)
        if len(indices) > 1 or not (indices or dealt) and around.arithmetic.ranges[f"%nctaid.{other}"][1] > 1:
            return False
        ways += indices
    strides = [one for one in ways if isinstance(one, Linear)]
    return len(set(ways)) == len(ways) and all(_is_of_launch(around, one) for stride in strides for one in symbols_of(stride))


def _is_of_launch(around: Surroundings, symbol: Symbol) -> bool:
    """Whether it is the same in all blocks."""
    return is_shared(around, symbol, "xyz")


def _passes_on(around: Surroundings, turn: Linear, value: Linear, last: str) -> bool:
    """Whether the turn passed on is the next one whenever there is a next block. `last`: the axis along which the turn advances most."""
    blocks = Symbol(f"%nctaid.{last}")
    together = scale(atom(blocks), dict(turn.terms)[Symbol(f"%ctaid.{last}")])
    ranges = around.arithmetic.ranges
    facts: list[Formula] = list(in_ranges(ranges, dict.fromkeys((*symbols_of(turn), *symbols_of(value), blocks))))
    extent = around.interface.launch["xyz".index(last)]
    if extent is not None:
        facts += [Compare("eq", add(extent, atom(blocks), -1)), *in_ranges(ranges, symbols_of(extent))]
    another = Compare("ge", add(add(together, turn, -1), Linear(-2)))
    return System([*facts, another]).entails(Compare("eq", add(value, add(turn, Linear(1)), -1)))
