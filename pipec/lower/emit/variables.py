"""What variables hold, as values: LLVM gets no memory that it would have to turn into registers first.

Blocks are written in an order in which all jumps to a block come before it, except those back to the head of a loop. So where a variable
is read, the values that it may have are known but for such jumps: at the head of a loop a value of its own stands for them (a phi), and
once everything is written, those that stand for one value only are replaced by it (Braun et al., Simple and Efficient Construction of
Static Single Assignment Form, CC 2013).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pipec.lower.emit.value import Value
from pipec.record import field, mutable, record

_FAR = 64  # blocks: what was computed longer ago is computed again


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
    before: "list[Block]" = field(default_factory=list)  # one for each jump
    ways: "list[Block]" = field(default_factory=list)  # of those, what was there when it began: not what jumps back
    placed: bool = False
    head: bool = False  # of a loop
    dominator: "Block | None" = None  # the nearest block that every way here passes
    depth: int = 0  # how many there are
    holds: dict[Slot, Value] = field(default_factory=dict)  # at its end, of what it wrote or was asked for


@mutable
class _Phi:
    block: Block
    slot: Slot
    value: Value
    values: list[str] = field(default_factory=list)  # their names, by jump to the block


class Variables:
    """The blocks of one function, and who follows whom."""

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self._fresh = fresh
        self.here = Block("entry", placed=True)
        self._blocks = {"entry": self.here}
        self._phis: list[_Phi] = []

    def read(self, slot: Slot) -> Value:
        return self.here.holds.get(slot) or self._at_end(self.here, slot)

    def write(self, slot: Slot, value: Value) -> None:
        self.here.holds[slot] = value

    def jump(self, label: str) -> None:
        """From the block at hand, which ends."""
        target = self._block(label)
        assert target.head or not target.placed, f"a jump back to {label}, which is not said to be the head of a loop"
        target.before.append(self.here)
        if target is self.here and not target.holds:
            target.head = False  # a loop that waits: what was held before it is held behind it

    def begin(self, label: str, *, head: bool) -> None:
        self.here = block = self._block(label)
        block.ways, block.placed, block.head = list(block.before), True, head
        if block.ways:
            block.dominator = reduce(_common, block.ways)
            block.depth = block.dominator.depth + 1

    def passed(self, block: Block) -> bool:
        """Whether every way to the block at hand passes another one, as far as a short look tells."""
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
        """Without recursion: a chain of blocks is as long as the kernel."""
        asked = [block]
        while True:
            one = asked[-1]
            while slot not in one.holds and len(one.ways) == 1 and not one.head:
                one = one.ways[0]
                asked.append(one)
            value = one.holds.get(slot) or self._joined(one, slot, asked)
            if value is None:
                continue
            one.holds[slot] = value
            asked.pop()
            while asked and len(asked[-1].ways) == 1 and not asked[-1].head:
                asked.pop().holds[slot] = value
            if not asked:
                return value

    def _joined(self, block: Block, slot: Slot, asked: list[Block]) -> Value | None:
        """Where several blocks come together; None if one of them has to be asked first."""
        if not block.head:
            if not block.ways:
                return Value(slot.type, "poison")  # nothing was written on any way here
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
        """The instructions at the beginning of each block, and names to be replaced by others."""
        for phi in self._phis:  # more are added on the way
            phi.values = [self._at_end(one, phi.slot).name for one in phi.block.before]
        replaced = _single(self._phis)
        written: dict[str, list[str]] = {}
        for phi in self._phis:
            if phi.value.name not in replaced:
                ways = zip(phi.values, phi.block.before, strict=True)
                text = ", ".join(f"[ {replaced.get(name, name)}, %{one.label} ]" for name, one in ways)
                written.setdefault(phi.block.label, []).append(f"  {phi.value.name} = phi {phi.slot.type} {text}")
        return written, replaced


def _common(one: Block, other: Block) -> Block:
    """The nearest block that dominates both."""
    while one is not other:
        if one.depth < other.depth:
            one, other = other, one
        assert one.dominator is not None, "only the first block has none, and it dominates all others"
        one = one.dominator
    return one


def _single(phis: Sequence[_Phi]) -> dict[str, str]:
    """Names that stand for one value, and that value's."""
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
