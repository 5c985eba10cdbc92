"""Instruction forms: all instructions that differ only in their registers and constants share one. Holds how often each has run, and its
machine code."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from pipec.record import mutable

from .code import Code
from .library import address_of, available
from .runner import OPERANDS

# Executions of a form after which compiling it pays; and executions after which others are compiled along with it.
HOT, WARM = 200, 60


@mutable(eq=False)
class Form:
    """`name` is the opcode; `trace` generates its code (None: there is none). Once `tried`, `function` is its address (0: no machine
    code), and `events` lists, for each row that it touches, which of the instruction's registers it is."""

    name: str
    trace: Callable[[], Code | None]
    runs: int = 0
    tried: bool = False
    function: int = 0
    events: Sequence[int] = ()

    def compile(self) -> None:
        self.tried = True
        if not available():
            return
        code = self.trace()
        if code is None or not code.events or len(code.events) > OPERANDS:
            return
        self.function, self.events = address_of(code.text), code.events
        _made.append(self)


_made: list[Form] = []


def version() -> int:
    """Changes whenever a form has been compiled."""
    return len(_made)


_FORMS: dict[tuple[str, Hashable], Form] = {}


def form(name: str, shape: Hashable, trace: Callable[[], Code | None]) -> Form:
    """The form of an opcode with operands of this shape, one per process; `trace` is used for a new one."""
    key = name, shape
    found = _FORMS.get(key)
    if found is None:
        found = _FORMS[key] = Form(name, trace)
    return found
