"""Sections of a walk: some threads act after a branch while the others skip it, until both join again."""

from collections.abc import Callable

from pipec.record import record, replace
from pipec.verify.reader.flow.graph import EXIT, Block
from pipec.verify.reader.flow.sections import Section
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.processes.loops import Loops
from pipec.verify.reader.values.machine import Machine
from pipec.verify.reader.values.surroundings import ACTING, Env
from pipec.verify.reader.values.tables import Hints
from pipec.verify.reader.values.values import UNKNOWN, Lanes, Mixed, Table, Value


@record
class ActiveThreads:
    """The threads in a section of the flow, and the values that the registers written there have in the other threads."""

    section: Section
    threads: tuple[int, ...]
    kept: tuple[tuple[str, Value], ...]


class Divergence(Loops):
    """Tracks threads of a class that are temporarily separated."""

    def __init__(self, flow: Flow, machine: Machine, name: str, hints: Hints | None = None) -> None:
        super().__init__(flow, machine, name, hints)
        self.acting: dict[ActiveThreads, int] = {}
        self._acting: list[ActiveThreads] = []

    def _stand(self, env: Env) -> None:
        """Sets whether the machine executes for the acting threads only, or for all."""
        number = env.get(ACTING)
        self.machine.acting = self._acting[number].threads if isinstance(number, int) else None

    def _set_apart(self, block: Block, value: Value, env: Env) -> bool:
        """Whether the branch is around a section that only some threads enter: then these alone are followed up to the join."""
        section = self.flow.sections.get(block.number)
        if section is None or ACTING in env or self.machine.partial or not isinstance(value, (Lanes, Mixed)):
            return False
        assert block.branch is not None
        passing = (section.way == 1) != block.branch.negated  # the predicate of the threads that skip the section
        held = zip(self.machine.threads, map(value.entries.__getitem__, self.machine.threads), strict=True)
        mine = tuple([thread for thread, entry in held if entry != passing])
        if not 0 < len(mine) < len(self.machine.threads):
            return False
        if section.meets and not {thread // 32 for thread in mine}.isdisjoint(
            thread // 32 for thread in {*self.machine.threads}.difference(mine)
        ):
            return False
        live = self.flow.blocks[section.join].live if section.join != EXIT else 0
        names = self.flow.named(section.defines & ~section.others & live)
        self._act(env, ActiveThreads(section, mine, tuple((name, env[name]) for name in names if name in env)))
        return True

    def _act(self, env: Env, acting: "ActiveThreads") -> None:
        number = env[ACTING] = self.acting.setdefault(acting, len(self._acting))
        if number == len(self._acting):
            self._acting.append(acting)
        self._stand(env)

    def _keep(self, env: Env, how: Callable[[Value], Value]) -> None:
        """Updates the values kept for the skipping threads; symbols may have been redefined."""
        number = env.get(ACTING)
        if isinstance(number, int) and self._acting[number].kept:
            acting = self._acting[number]
            kept = tuple((name, how(value)) for name, value in acting.kept if isinstance(value, (int, Lanes, Table)))
            self._act(env, replace(acting, kept=kept))

    def _rejoin(self, number: int, env: Env) -> None:
        """At the join, registers written in the section may have different values per thread."""
        at = env.get(ACTING)
        if not isinstance(at, int) or self._acting[at].section.join != number:
            return
        acting = self._acting[at]
        kept = dict(acting.kept)
        for name in self.flow.named(acting.section.defines):
            if name in env:
                env[name] = self.machine.joined(acting.threads, env[name], kept.get(name, UNKNOWN))
        del env[ACTING]
        self.machine.acting = None
