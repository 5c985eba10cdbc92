"""Executes instructions for a class of threads, and selects the steps of an iteration that must be repeated to find its effect."""

from pipec.verify.reader.flow.graph import Block, Run, Step
from pipec.verify.reader.text.opcodes import COMPUTING, Kind
from pipec.verify.reader.text.operations import operation
from pipec.verify.reader.text.statements import address
from pipec.verify.reader.values.events import Events
from pipec.verify.reader.values.surroundings import Env, Group, Require
from pipec.verify.terms import Formula


class Machine(Events):
    """Executes instructions for one class of threads. Iterations are repeated with the same branch outcomes."""

    def execute(self, run: Run, env: Env, require: Require) -> None:
        """Executes computing steps. Results for equal inputs are cached, since the same steps are executed many times."""
        if self.acting is not None or self.winds:
            for step in run.steps:
                self.compute(step, env, require)
            return
        key = (self.group, *map(env.get, run.uses))
        found = run.made.get(key)
        if found is None:
            needed: list[tuple[Formula, ...]] = []
            plans = run.plans.get(self.rank)
            if plans is None:
                plans = run.plans[self.rank] = [self.plan(step.instruction) for step in run.steps]
            for plan in plans:
                plan(self, env, needed.append)
            found = run.made[key] = {name: env[name] for name in run.defines if name in env}, tuple(needed)
        else:
            env.update(found[0])
        for formulas in found[1]:
            require(formulas)

    def needed(self, passed: list[Block], names: int) -> list[Step]:
        """The steps of an iteration on which registers (a bit set) and positions on rings depend."""
        steps = [step for block in passed for step in block.steps]
        moving = [step.spin or step.passes or step.instruction.number in self._rings for step in steps]
        for step, moves in zip(steps, moving, strict=True):
            names |= step.uses if moves else 0
        before = -1
        while names != before:
            before = names
            for step in reversed(steps):
                if step.defines & names:
                    names |= step.uses
        return [step for step, moves in zip(steps, moving, strict=True) if moves or step.defines & names]

    def moved_by(self, steps: list[Step], name: str) -> int:
        """The increment of a register per iteration, for any value; 0 if unknown."""
        by, register = 0, name
        for step in reversed(steps):
            one = step.instruction
            if step.kind not in COMPUTING or register not in one.first:
                continue
            op = operation(one.opcode)
            if op is None or op.name not in ("mov", "add") or op.to < 32 or one.predicate is not None or len(one.first) > 1:
                return 0
            sources = [self._operand(text) for text in one.operands[1:]]
            constants = [value for is_register, value in sources if not is_register]
            if len(sources) - len(constants) != 1 or not all(isinstance(value, int) for value in constants):
                return 0
            by += sum(constants)  # type: ignore[arg-type]
            register = next(text for text in one.operands[1:] if self._operand(text)[0])
        return by if register == name else 0

    def repeat(self, steps: list[Step], env: Env) -> Env:
        """Repeats the steps of an iteration."""
        for step in steps:
            if step.kind in COMPUTING:
                self.compute(step, env, lambda formulas: None)
            elif step.kind is Kind.TRY:
                self._repeat_try(step, env)
            elif any(self.signalled(ring) for ring in self._rings.get(step.instruction.number, ())):
                self._repeat_signal(step, env)
        return env

    def _repeat_signal(self, step: Step, env: Env) -> None:
        """An arrival that is counted separately."""
        here, self.acting = self.acting, self.inside.get(step.instruction.number)
        acts = self.acts(step, env) if self.guard(step, env) == 1 else []
        self.acting = here
        for act in acts:
            if act.advance and act.position is not None:
                env[("position", act.position)] = self.moved(self._position(act.position, env), act.position, act.advance)

    def _repeat_try(self, step: Step, env: Env) -> None:
        if not step.spin and not (step.passes and self.guard(step, env) == 0):
            env.update(self.peek(step.instruction, env))
            return
        spot, rounds = self._awaited(step.instruction, env)
        if isinstance(rounds, int) and isinstance(self._position(spot.ring, env), int):
            act = self._wait(step.instruction, env)
            key = ("position", spot.ring)
            env[key] = self.moved(env.get(key, 0), spot.ring, act.advance)

    def groups(self, passed: list[Block], names: list[object], env: Env) -> list[Group]:
        """The registers and positions that depend on each other in this iteration, in groups with at least one position."""
        sources: dict[object, frozenset[object]] = {name: frozenset((name,)) for name in names}
        nothing: frozenset[object] = frozenset()
        rings: set[object] = set()
        for block in passed:
            for step in block.steps:
                one = step.instruction
                if step.kind in COMPUTING:
                    used = nothing.union(*[sources[text] for text in one.operands[1:] if text in sources])
                    if one.predicate:
                        used |= sources.get(one.predicate, nothing) | sources.get(one.operands[0], nothing)
                    for name in one.first:
                        sources[name] = used
                elif step.kind is not Kind.TRY and one.number in self._rings:
                    at = next(number for number, text in enumerate(one.operands) if text.startswith("["))
                    for ring in self._rings[one.number]:
                        key = ("position", ring)
                        rings.add(key)
                        used = sources.get(address(one.operands[at], one.line)[0], nothing)
                        sources[key] = sources.get(key, frozenset((key,))) | used
                elif step.kind is Kind.TRY:
                    used = sources.get(address(one.operands[1], one.line)[0], nothing) | sources.get(one.operands[2], nothing)
                    if not step.spin and not step.passes:
                        sources[one.first[0]] = used
                        continue
                    for ring in self._rings.get(one.number, ()):
                        key = ("position", ring)
                        rings.add(key)
                        sources[key] = sources.get(key, frozenset((key,))) | used
        found: list[set[object]] = []
        for member in {*names, *rings}:
            joined = {member, *sources.get(member, ())}
            apart = []
            for group in found:
                if group & joined:
                    joined |= group
                else:
                    apart.append(group)
            found = [*apart, joined]
        groups = [Group(frozenset(group), frozenset(one[1] for one in group if isinstance(one, tuple))) for group in found]
        return [group for group in groups if group.positions]
