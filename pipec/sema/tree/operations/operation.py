"""The base class of operations and the table of them; each class declares its effects."""

from pipec.sema.tree.effects import Effects
from pipec.source import Span

OPERATIONS: dict[str, type["Operation"]] = {}


class Operation:
    """What all operations have: a source location, declared effects, and a line of text for `--emit kir`.

    To add one, write its class beside the most similar one, with `declared` and `text`. It is then in `OPERATIONS`, which is compared with
    the lowering's table.
    """

    __slots__ = ("_effects", "_nodes")  # caches: see `effects`, and `pipec.kir.walk.nodes`

    def __init_subclass__(cls) -> None:
        OPERATIONS[cls.__name__] = cls  # `record` creates a class twice: the finished one comes last

    @property
    def span(self) -> Span:
        raise NotImplementedError

    def declared(self) -> Effects:
        """The value of `effects`, computed on first use."""
        raise NotImplementedError

    def text(self) -> str:
        raise NotImplementedError

    @property
    def effects(self) -> Effects:
        found: Effects | None = getattr(self, "_effects", None)
        if found is None:
            found = self.declared()
            object.__setattr__(self, "_effects", found)  # records refuse assignment, and this is a cache, not a field
        return found
