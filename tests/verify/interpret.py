"""Runs a network for given sizes: every process as its automaton says, with counted phases instead of parities."""

from collections import Counter
from dataclasses import dataclass, field
from math import prod

from pipec.verify.network import Arrive, Edge, End, Network, Process, Test, Wait
from pipec.verify.terms import Apply, Atom, Both, Choose, Compare, Either, Floor, Formula, Linear, Product, Symbol

MOST_STEPS = 1_000_000


@dataclass
class Running:
    """A process at work. `seen`: its barrier events so far: word, barrier, phase, arrivals; `lines`: of the text."""

    process: Process
    values: dict[str, int]
    at: int
    cursors: list[int]
    seen: list[tuple[str, int, int, int]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


def run(network: Network, sizes: dict[str, int]) -> list[Running]:
    """The processes after they have ended. Fails if they wait for ever, or if a requirement does not hold."""
    counts: Counter[tuple[int, int]] = Counter()
    bytes_: Counter[tuple[int, int]] = Counter()
    running = [Running(one, dict(sizes), one.start, [0] * one.cursors) for one in network.processes]

    def complete(ring: int, use: int) -> bool:
        if use < 0:
            return True
        assert counts[ring, use] <= network.rings[ring].count, "more arrivals than the barrier takes"
        return counts[ring, use] == network.rings[ring].count and bytes_[ring, use] == 0

    for _ in range(MOST_STEPS):
        moved = False
        for one in running:
            action = one.process.states[one.at].action
            match action:
                case End():
                    continue
                case Test(condition, yes, no):
                    follow(one, yes if holds(condition, one.values) else no)
                case Arrive(use, edge, count, expects, delivers):
                    number = one.cursors[use.cursor] + use.shift
                    ring = network.rings[use.ring]
                    stages = ring.stages
                    assert number < stages or complete(use.ring, number - stages), (
                        "an arrival at a phase that is not the current one"
                    )
                    counts[use.ring, number] += count
                    bytes_[use.ring, number] += expects - delivers
                    one.seen.append((ring.kind, ring.instances[number % stages], number // stages, count))
                    one.lines.append(one.process.states[one.at].line)
                    follow(one, edge)
                case Wait(use, edge, peeks=True):
                    assert complete(use.ring, one.cursors[use.cursor] + use.shift), "a parity that is not that of the next phase"
                    follow(one, edge)
                case Wait(use, edge):
                    number = one.cursors[use.cursor] + use.shift
                    if not complete(use.ring, number):
                        continue
                    ring = network.rings[use.ring]
                    one.seen.append((f"wait {ring.kind}", ring.instances[number % ring.stages], number // ring.stages, 0))
                    one.lines.append(one.process.states[one.at].line)
                    follow(one, edge)
            moved = True
        if not moved:
            break
    states = [(one.process.role, one.process.states[one.at]) for one in running]
    stuck = [(role, state.line) for role, state in states if not isinstance(state.action, End)]
    assert not stuck, stuck
    return running


def follow(one: Running, edge: Edge) -> None:
    assert all(holds(formula, one.values) for formula in edge.requires), "a requirement does not hold"
    new = {symbol.name: value(form, one.values) for symbol, form in edge.values if form is not None}
    one.values.update(new)
    for cursor, by in edge.advances:
        one.cursors[cursor] += by
    one.at = edge.target


def holds(formula: Formula, values: dict[str, int]) -> bool:
    match formula:
        case Compare(relation, form):
            number = value(form, values)
            return {"ge": number >= 0, "eq": number == 0, "ne": number != 0}[relation]
        case Both(parts):
            return all(holds(part, values) for part in parts)
        case Either(parts):
            return any(holds(part, values) for part in parts)


def value(form: Linear, values: dict[str, int]) -> int:
    return form.constant + sum(times * _atom(one, values) for one, times in form.terms)


def _atom(one: Atom, values: dict[str, int]) -> int:
    match one:
        case Symbol(name):
            return values[name]
        case Floor(form, divisor):
            return value(form, values) // divisor
        case Choose(condition, yes, no):
            return value(yes if holds(condition, values) else no, values)
        case Product(factors):
            return prod(_atom(factor, values) for factor in factors)
        case Apply(function, arguments):
            return _applied(function, [value(argument, values) for argument in arguments])


def _wrap(number: int, kind: str) -> int:
    width = int(kind[1:])
    number %= 1 << width
    return number - (1 << width) if kind[0] == "s" and number >> (width - 1) else number


def _field(number: int, start: int, length: int, kind: str) -> int:
    """PTX ISA, bfe: beyond the number, and beyond a signed field, its last bit is repeated."""
    width = int(kind[1:])
    sign = kind[0] == "s" and length > 0 and number >> min(start + length - 1, width - 1) & 1
    bits = (number >> (start + at) & 1 if at < length and start + at < width else int(sign) for at in range(width))
    return _wrap(sum(bit << at for at, bit in enumerate(bits)), kind)


def _applied(function: str, arguments: list[int]) -> int:
    if function == "product":
        return prod(arguments)
    if function == "floor":
        # (Of what is less than 1 nothing is said.)
        return arguments[0] // arguments[1] if arguments[1] > 0 else 3 * arguments[0] - arguments[1]
    if function == "rest":
        return arguments[0] % arguments[1] if arguments[1] > 0 else 0
    name, _, kind = function.rpartition(".")
    if not name:
        return _wrap(arguments[0], kind)
    operation, _, reading = name.partition(".")
    given = reading.rpartition(".")[2] or kind
    given = given if given[:1] in "us" and given[1:].isdigit() else kind
    read = [_wrap(argument, given) for argument in arguments]
    if operation in ("shl", "shr"):
        read[1:] = [_wrap(arguments[1], "u32")]  # the amount has 32 bits, whatever it shifts
    match operation:
        case "ld":  # memory has some small number at each address
            return arguments[0] * 2_654_435_761 // 97 % 7 - 2
        case "mul" | "mad":  # (of a `mad` the product alone)
            return _wrap(read[0] * read[1] >> (int(given[1:]) if "hi" in reading else 0), kind)
        case "div":
            return (
                _wrap(int(abs(read[0]) // abs(read[1])) * (1 if (read[0] < 0) == (read[1] < 0) else -1), kind) if read[1] else 0
            )
        case "rem":
            return _wrap(abs(read[0]) % abs(read[1]) * (-1 if read[0] < 0 else 1), kind)
        case "and":
            return _wrap(read[0] & read[1], kind)
        case "or":
            return _wrap(read[0] | read[1], kind)
        case "xor":
            return _wrap(read[0] ^ read[1], kind)
        case "shr":
            return _wrap(read[0] >> min(read[1], 64), kind)
        case "shl":
            return _wrap(read[0] << min(read[1], 64), kind)
        case "bfe":
            return _field(read[0], read[1] & 255, read[2] & 255, kind)
    raise AssertionError(f"{function} is not known")
