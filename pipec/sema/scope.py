"""Names and their meanings, block by block."""

from collections.abc import Iterator
from typing import Literal

from pipec.record import field, mutable, record
from pipec.sema import tree
from pipec.sema.meanings import Meaning, Poison, Token
from pipec.source import Span


@mutable
class Binding:
    meaning: Meaning
    span: Span | None


BlockKind = Literal["with", "elected", "turn", "loop", "branch"]


@record
class Ended:
    """Where a name of a finished block was assigned, and the kind of block."""

    span: Span
    kind: BlockKind
    value: bool  # a number or tile of values, which could also be assigned before the block
    tile: bool = False  # of values that would outlast it in registers


@mutable
class Scope:
    """The names of one block; `parent` is the enclosing block. `ended` records names of finished inner blocks, for better messages.

    `again`: the names of an enclosing block that this one gave another meaning, and where. `hidden`: those of finished inner blocks, whose
    old meaning is not what the program says any more. `used`: the names of enclosing blocks that were read here, and where.
    `outlasting`: the variables of finished `with` blocks, which nothing has read since. Until something does, an assignment begins anew.
    """

    parent: "Scope | None" = None
    kind: "BlockKind | None" = None
    names: dict[str, Binding] = field(default_factory=dict)
    ended: dict[str, "Ended"] = field(default_factory=dict)
    again: dict[str, Span] = field(default_factory=dict)
    hidden: dict[str, Span] = field(default_factory=dict)
    used: dict[str, Span] = field(default_factory=dict)
    outlasting: dict[str, Binding] = field(default_factory=dict)

    def inner(self, kind: "BlockKind | None" = None) -> "Scope":
        return Scope(self, kind)

    def find(self, name: str) -> Binding | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def outwards(self) -> Iterator["Scope"]:
        """This block and all around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def read(self, name: str, span: Span) -> tuple[Binding | None, Span | None]:
        """Records a use of the name: what it is bound to, and where a finished block gave it another meaning than it has here.

        A variable that has outlasted its `with` is one of its block from now on; but not one that a loop or a branch may have given
        another value since.
        """
        scope: Scope | None = self
        assigned, again, through = False, None, []
        while scope is not None:
            if again is None and name in scope.hidden:
                again = scope.hidden[name]
            if name in scope.names:
                found = scope.names[name]
                break
            if name in scope.outlasting and not assigned:
                found = scope.names.setdefault(name, scope.outlasting.pop(name))
                break
            assigned = assigned or name in scope.ended
            through.append(scope)
            scope = scope.parent
        else:
            return None, None
        if again is None and not isinstance(found.meaning, Poison):
            for scope in through:
                scope.used.setdefault(name, span)
        return found, again

    def up_to(self, name: str) -> Iterator["Scope"]:
        """The blocks from this one to the one that binds the name."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = None if name in scope.names else scope.parent

    def bind(self, name: str, meaning: Meaning, span: Span | None) -> None:
        self.names[name] = Binding(meaning, span)
        self.hidden.pop(name, None)

    def end(self, inner: "Scope", kind: BlockKind) -> None:
        """Records the names that a finished inner block had assigned. All threads run a `with` once: the variables that it assigned
        last, as in Python, and those whose assignment failed, but not the stages that it held. (What a tile's name stands for may read
        such a stage: E0304.) So does what is in registers outlast a turn, but not what is loaded where a name is used."""
        for name, ended in inner.ended.items():
            self._end(name, ended)
        for name, binding in {**inner.outlasting, **inner.names}.items():
            if _outlasts(binding.meaning, kind):
                self.outlasting[name] = binding
                self.ended.pop(name, None)
            elif binding.span is not None:
                found = binding.meaning
                value = isinstance(found, tree.Variable | Token)
                self._end(name, Ended(binding.span, kind, value, _is_kept_by_registers(found, kind)))
        self.hidden.update({**inner.hidden, **inner.again})

    def _end(self, name: str, ended: Ended) -> None:
        self.ended.setdefault(name, ended)
        self.outlasting.pop(name, None)

    def ended_at(self, name: str) -> Ended | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.ended:
                return scope.ended[name]
            scope = scope.parent
        return None

    def close_to(self, name: str, extra: tuple[str, ...] = ()) -> str | None:
        """The known name most similar to `name`, for a `did you mean`."""
        known: set[str] = set(extra)
        scope: Scope | None = self
        while scope is not None:
            known |= scope.names.keys() | scope.outlasting.keys()
            scope = scope.parent
        return closest(name, known)


def _is_kept_by_registers(meaning: Meaning, kind: BlockKind) -> bool:
    """Whether `registers(...)` of what the name stands for would outlast the block."""
    return kind == "with" and isinstance(meaning, tree.BufferRef) or kind == "turn" and isinstance(meaning, tree.Variable)


def _outlasts(meaning: Meaning, kind: BlockKind) -> bool:
    """Whether a name with that meaning goes on behind the block that assigned it."""
    if kind not in ("with", "turn"):
        return False
    if isinstance(meaning, tree.Variable):
        return kind == "with" or not meaning.is_lazy
    return isinstance(meaning, tree.Accumulator | Poison)


def closest(name: str, known: "set[str] | tuple[str, ...]") -> str | None:
    from difflib import get_close_matches  # valid programs never need it

    # Sorted, since the iteration order of a set of strings varies from run to run, and messages must not.
    found = get_close_matches(name, sorted(known), n=1, cutoff=0.65)
    return found[0] if found else None
