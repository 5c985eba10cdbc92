"""The states of a walk, and the transitions between them."""

from pipec.record import mutable
from pipec.verify.reader.processes.rounds import Trail
from pipec.verify.reader.values.surroundings import Env, RingAction
from pipec.verify.terms import Formula, Linear, Symbol

Held = tuple[object, ...]


@mutable
class Node:
    """A state. `act` for an event (number `sub` of its step), `condition` for a branch, neither at the end. `held`: what distinguishes
    it from others at the same place."""

    block: int
    index: int
    sub: int
    line: int
    env: Env
    trail: Trail
    edges: list["Transition"]
    acts: list[RingAction]
    act: RingAction | None = None
    condition: Formula | None = None
    symbols: tuple[Symbol, ...] = ()
    held: Held = ()


@mutable
class Transition:
    """A transition between nodes."""

    target: int
    values: tuple[tuple[Symbol, Linear | None], ...]
    advances: tuple[tuple[object, int], ...]
    requires: tuple[Formula, ...]
