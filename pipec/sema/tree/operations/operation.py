"""What all operations have in common, and the table of them; each declares its effects on its class."""

from pipec.sema.tree.effects import Effects
from pipec.source import Span

OPERATIONS: dict[str, type["Operation"]] = {}


class Operation:
    """What all operations have: a place in the source, their declaration, and a line of text for `--emit kir`.

    To add one, write its class beside the most similar one, with `declared` and `text`. It is then in `OPERATIONS`, which the
    lowering's table is compared with.
    """

    __slots__ = ("_effects",)

    def __init_subclass__(cls) -> None:
        OPERATIONS[cls.__name__] = cls  # `record` makes a class twice: the finished one comes last

    @property
    def span(self) -> Span:
        raise NotImplementedError

    def declared(self) -> Effects:
        """What `effects` returns, made at the first question."""
        raise NotImplementedError

    def text(self) -> str:
        raise NotImplementedError

    @property
    def effects(self) -> Effects:
        found: Effects | None = getattr(self, "_effects", None)
        if found is None:
            found = self.declared()
            object.__setattr__(self, "_effects", found)  # records refuse assignment; this is no field of theirs
        return found
