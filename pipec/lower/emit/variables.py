"""SSA construction of variables: LLVM gets no stack memory that it would have to promote to registers.

Blocks are emitted in an order in which all predecessors of a block precede it, except for back edges to loop headers. Where a variable
is read, its possible values are thus known except for those back edges: at a loop header a phi stands for them, and once everything is
emitted, trivial phis are replaced by their only value (Braun et al., Simple and Efficient Construction of Static Single Assignment Form,
CC 2013).

To go from a read to the last write through all blocks between them would take time in the product of variables and blocks. Most reads
are behind the last write, or the last loop header, on every way: both are looked up by number, and whether one block dominates another
takes as many steps as its depth has digits.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pipec.lower.emit.value import Value
from pipec.record import field, mutable, record

_FAR = 64  # blocks: values computed further away are recomputed


@record(eq=False)
class Slot:
    """A variable; `hint` is for the names of its values."""

    variables: "Variables"
    type: str
    hint: str

    def read(self) -> Value:
        return self.variables.read(self)

    def write(self, value: Value) -> None:
        self.variables.write(self, value)


@mutable
class Block:
    label: str
    before: "list[Block]" = field(default_factory=list)  # predecessors, one per jump
    ways: "list[Block]" = field(default_factory=list)  # predecessors emitted before it, that is, without back edges
    placed: bool = False
    head: bool = False  # of a loop
    dominator: "Block | None" = None  # the immediate dominator
    jump: "Block | None" = None  # a dominator further up, so that each is reached in few steps
    depth: int = 0  # in the dominator tree
    number: int = 0  # in the order of emission
    holds: dict[Slot, Value] = field(default_factory=dict)  # values at its end, of variables that it wrote or that were read


@mutable
class _Phi:
    block: Block
    slot: Slot
    value: Value
    values: list[str] = field(default_factory=list)  # incoming values, by predecessor


class Variables:
    """The blocks of one function, and their edges."""

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self._fresh = fresh
        self.here = Block("entry", placed=True)
        self._blocks = {"entry": self.here}
        self._order = [self.here]
        self._heads = [0]  # the first block, and those at the start of a loop, by number
        self._known: dict[Slot, list[int]] = {}  # the blocks that wrote a variable, or that join values of it, by number
        self._phis: list[_Phi] = []

    def read(self, slot: Slot) -> Value:
        return self.here.holds.get(slot) or self._at_end(self.here, slot)

    def write(self, slot: Slot, value: Value) -> None:
        self.here.holds[slot] = value
        self._note(self.here, slot)

    def _note(self, block: Block, slot: Slot) -> None:
        known = self._known.setdefault(slot, [])
        at = bisect_left(known, block.number)
        if known[at : at + 1] != [block.number]:
            known.insert(at, block.number)

    def jump(self, label: str) -> None:
        """Ends the current block with a jump."""
        target = self._block(label)
        assert target.head or not target.placed, f"a jump back to {label}, which is not said to be the head of a loop"
        target.before.append(self.here)
        if target is self.here and not target.holds:
            target.head = False  # a polling loop: variables have the same values before and after it
            self._heads.remove(target.number)

    def begin(self, label: str, *, head: bool) -> None:
        self.here = block = self._block(label)
        block.ways, block.placed, block.head = list(block.before), True, head
        block.number = len(self._order)
        self._order.append(block)
        if head:
            self._heads.append(block.number)
        if block.ways:
            above = block.dominator = reduce(_common, block.ways)
            block.depth = above.depth + 1
            # (Myers, An applicative random-access stack, 1983.)
            far = above.jump
            even = far is not None and far.jump is not None and above.depth - far.depth == far.depth - far.jump.depth
            block.jump = far.jump if even and far is not None else above

    def passed(self, block: Block) -> bool:
        """Whether a block dominates the current one, as far as a bounded search determines."""
        one: Block | None = self.here
        for _ in range(_FAR):
            if one is None or one.depth <= block.depth:
                break
            one = one.dominator
        return one is block

    def _block(self, label: str) -> Block:
        if label not in self._blocks:
            self._blocks[label] = Block(label)
        return self._blocks[label]

    def _at_end(self, block: Block, slot: Slot) -> Value:
        """Iterative: a chain of blocks may be as long as the kernel."""
        asked = [block]
        while True:
            one = self._source(asked[-1], slot)
            value = one.holds.get(slot)
            if value is None:
                if len(one.ways) == 1 and not one.head:
                    asked.append(one.ways[0])
                    continue
                value = self._joined(one, slot, asked)
                if value is None:
                    continue
                one.holds[slot] = value
                self._note(one, slot)
            asked.pop().holds[slot] = value
            while asked and len(asked[-1].ways) == 1 and not asked[-1].head:
                asked.pop().holds[slot] = value
            if not asked:
                return value

    def _source(self, block: Block, slot: Slot) -> Block:
        """The block from which the variable comes unchanged to the end of another one: between the two it is not written, and no loop
        begins, so that no way between them leads back."""
        known, heads = self._known.get(slot, ()), self._heads
        last = bisect_right(known, block.number)
        number = heads[bisect_right(heads, block.number) - 1]
        source = self._order[max(number, known[last - 1]) if last else number]
        return source if _above(block, source.depth) is source else block

    def _joined(self, block: Block, slot: Slot, asked: list[Block]) -> Value | None:
        """The value at a join; None if one of the predecessors must be resolved first."""
        if not block.head:
            if not block.ways:
                return Value(slot.type, "poison")  # no path here writes it
            first = block.ways[0].holds.get(slot)
            for one in block.ways:
                if slot not in one.holds:
                    asked.append(one)
                    return None
                if first is not None and one.holds[slot].name != first.name:
                    first = None
            if first is not None:
                return first
        phi = _Phi(block, slot, Value(slot.type, f"%{self._fresh(slot.hint)}"))
        self._phis.append(phi)
        return phi.value

    def finish(self) -> tuple[dict[str, list[str]], dict[str, str]]:
        """The phis at the start of each block, and names to be replaced by others."""
        for phi in self._phis:  # more are added during the loop
            phi.values = [self._at_end(one, phi.slot).name for one in phi.block.before]
        replaced = _single(self._phis)
        written: dict[str, list[str]] = {}
        for phi in self._phis:
            if phi.value.name not in replaced:
                ways = zip(phi.values, phi.block.before, strict=True)
                text = ", ".join(f"[ {replaced.get(name, name)}, %{one.label} ]" for name, one in ways)
                written.setdefault(phi.block.label, []).append(f"  {phi.value.name} = phi {phi.slot.type} {text}")
        return written, replaced


def _above(block: Block, depth: int) -> Block:
    """The dominator of that depth, or the last one below it where there is none."""
    while block.depth > depth and block.dominator is not None:
        far = block.jump
        block = far if far is not None and far.depth >= depth else block.dominator
    return block


def _common(one: Block, other: Block) -> Block:
    """The nearest common dominator."""
    while one is not other:
        if one.depth < other.depth:
            one, other = other, one
        assert one.dominator is not None, "only the first block has none, and it dominates all others"
        one = one.dominator
    return one


def _single(phis: Sequence[_Phi]) -> dict[str, str]:
    """Trivial phis, and the names that replace them."""
    replaced: dict[str, str] = {}
    users: dict[str, list[_Phi]] = {phi.value.name: [] for phi in phis}
    for phi in phis:
        for name in phi.values:
            if name in users:
                users[name].append(phi)
    left = list(phis)
    while left:
        phi = left.pop()
        own = phi.value.name
        different = {_final(name, replaced) for name in phi.values} - {own}
        if len(different) == 1 and own not in replaced:
            (single,) = different
            replaced[own] = single
            left += users[own]
            users.setdefault(single, []).extend(users[own])
    return {name: _final(name, replaced) for name in replaced}


def _final(name: str, replaced: Mapping[str, str]) -> str:
    while name in replaced:
        name = replaced[name]
    return name
