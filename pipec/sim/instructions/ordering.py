"""The memory-ordering qualifiers of an instruction (PTX ISA 8.3)."""

from __future__ import annotations

from typing import Literal, get_args

from pipec.record import record

from ..machine.races.detector import StrongUse
from ..machine.races.ledger import Scope

Semantics = Literal["relaxed", "acquire", "release", "acq_rel", "sc", "weak", "volatile"]
SEMANTICS: tuple[Semantics, ...] = get_args(Semantics)
SCOPES: tuple[Scope, ...] = get_args(Scope)


@record
class Ordering:
    """The memory-ordering qualifiers of an instruction; None where there are none."""

    semantics: Semantics | None
    scope: Scope | None

    @property
    def strong(self) -> bool:
        return self.semantics not in (None, "weak")

    @property
    def acquires(self) -> bool:
        return self.semantics in ("acquire", "acq_rel", "sc")

    @property
    def releases(self) -> bool:
        return self.semantics in ("release", "acq_rel", "sc")

    def use(self, reads: bool, writes: bool, scope: Scope) -> StrongUse:
        """`scope` is the default; volatile means the whole system."""
        reach = "sys" if self.semantics == "volatile" else self.scope or scope
        return StrongUse(reads, writes, reach, self.acquires, self.releases)
