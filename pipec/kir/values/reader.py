"""The terms of expressions at one point, given an environment of variables and the launch values."""

from collections.abc import Iterable, Mapping, MutableMapping

from pipec.isa.dtypes import DType
from pipec.isa.specials import AXES, SPECIALS, family_and_axis
from pipec.isa.targets import WARP
from pipec.kir.statements import statements
from pipec.kir.walk import children
from pipec.sema import tree
from pipec.sema.types import TileType, dtype_of
from pipec.terms import machine
from pipec.terms.arithmetic import select
from pipec.terms.term import DEEPEST, MOST_PARTS, Operator, Term, leaf, number
from pipec.terms.walk import as_function_of_leaves

Loop = tree.For | tree.While

# A stage is carried through loops like a variable: as the response that it holds.
Key = tree.Variable | tree.Handle
Environment = MutableMapping[Key, Term]
LARGEST = (1 << 31) - 1  # of a dimension, and of a grid along x
_MOST_BLOCKS = {"x": LARGEST, "y": 65_535, "z": 65_535}  # CUDA C++ Programming Guide, compute capabilities


class Launch:
    """What all roles of a kernel share: sizes, the grid and the cluster, and the tensors that do not change."""

    def __init__(self, kernel: tree.Kernel) -> None:
        self.written = written_tensors(kernel.roles)
        self.cluster = kernel.cluster
        self._grid: dict[str, Term] = {}
        self._grid = {axis: self.term(blocks) for axis, blocks in zip(AXES, kernel.grid, strict=True)}

    def term(self, expression: tree.Expression) -> Term:
        """The term of an expression that the host evaluates."""
        return Reader(self, {}, WARP)(expression)

    def blocks(self, name: str) -> Term | None:
        """The number of blocks along the axis of `block.x` and the like; None for other hardware values."""
        family, axis = family_and_axis(name)
        return self._grid.get(axis) if family == "block" else None

    def special(self, name: str, threads: int) -> Term:
        most = {"lane_id": WARP, "role_thread": threads, "role_warp": threads // WARP}
        if name in most:
            return leaf(Operator.SPECIAL, name, least=0, largest=most[name] - 1)
        if name == "cta.rank":
            # x runs fastest: hardware.md 5.1.
            x, y, z = (self.special(f"cta.{axis}", threads) for axis in AXES)
            width, height, _ = self.cluster.shape
            return x + y * width + z * (width * height)
        family, axis = family_and_axis(name)
        if name not in SPECIALS:
            return leaf(Operator.SPECIAL, name, least=0, largest=LARGEST)
        blocks = min(_MOST_BLOCKS[axis], max(1, self._grid[axis].largest)) if axis in self._grid else _MOST_BLOCKS[axis]
        extent = self.cluster.shape[AXES.index(axis)]
        largest = {
            "block": blocks - 1,
            "grid": blocks,
            "cta": extent - 1,
            "cluster": (blocks - 1) // extent,
            "clusters": blocks // extent,
        }
        return leaf(Operator.SPECIAL, name, least=int(family in ("grid", "clusters")), largest=largest[family])


def written_tensors(roles: Iterable[tree.Role]) -> frozenset[str]:
    """The tensors whose elements may change while the kernel runs: a CTA may load them before or after another one's store."""
    return frozenset(
        statement.effects.memory.place.tensor.name
        for role in roles
        for statement in statements(role.body)
        if isinstance(statement, tree.Operation) and statement.effects.memory is not None and statement.effects.memory.writes
    )


class Reader:
    """The terms of expressions, all evaluated at one point."""

    def __init__(self, launch: Launch, environment: Mapping[Key, Term], threads: int) -> None:
        self._launch, self._environment, self._threads = launch, environment, threads
        self.terms: dict[tree.Expression, Term] = {}

    def __call__(self, expression: tree.Expression) -> Term:
        if expression not in self.terms:
            self.terms[expression] = bounded(self._read(expression))
        return self.terms[expression]

    def scalars(self, expression: tree.Expression) -> None:
        """Reads the scalars in a tile's expression."""
        unseen, seen = [expression], set[tree.Expression]()
        while unseen:
            node = unseen.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node.type, TileType):
                unseen.extend(children(node))
                continue
            self(node)

    def _read(self, expression: tree.Expression) -> Term:
        match expression:
            case tree.Constant(value=bool() | int() as value):
                return number(int(value))
            case tree.ReadDimension(name=name):
                return leaf(Operator.DIMENSION, name, least=0, largest=LARGEST)
            case tree.ReadParameter(parameter=parameter, type=DType() as dtype):
                least, largest = machine.range_of(dtype)
                return leaf(Operator.PARAMETER, parameter, least=least, largest=largest)
            case tree.Special(name=name):
                return self._launch.special(name, self._threads)
            case tree.ReadVariable(variable=variable) if variable in self._environment:
                return self._environment[variable]
            case tree.ReadResponse(handle=handle) if handle in self._environment:
                return self._environment[handle]
            case tree.StageIndex(handle=handle):
                return leaf(Operator.UNKNOWN, expression, least=0, largest=handle.pipeline.stages - 1)
            case tree.Unary(operator=operator, operand=operand, type=DType() as dtype):
                return machine.unary(operator, dtype, self(operand))
            case tree.Binary(operator=operator, left=left, right=right, type=DType()):
                return machine.binary(operator, dtype_of(left.type), self(left), self(right))
            case tree.Convert(operand=operand, type=DType() as dtype):
                return machine.convert(self(operand), dtype_of(operand.type), dtype)
            case tree.Bitcast(operand=operand, type=DType() as dtype):
                return machine.bitcast(self(operand), dtype_of(operand.type), dtype)
            case tree.Select(condition=condition, when_true=one, when_false=other, type=DType()):
                return select(self(condition), self(one), self(other))
            case tree.Call(function=function, arguments=arguments, type=DType()):
                return machine.call(function, dtype_of(arguments[0].type), tuple(self(argument) for argument in arguments))
            case tree.ReadElement(source=source, type=dtype):
                least, largest = machine.range_of(dtype)
                place = tuple(self(coordinate) for coordinate in source.coordinates)
                # Each load of an element that the kernel writes is a leaf of its own: a later load may return another value.
                if source.tensor.name in self._launch.written:
                    return leaf(Operator.WRITTEN_ELEMENT, expression, *place, least=least, largest=largest)
                return leaf(Operator.ELEMENT, source.tensor, *place, least=least, largest=largest)
            # Not an integer: as a leaf, equal numbers are still equal values.
            case tree.Constant(value=value, type=dtype):
                least, largest = machine.range_of(dtype)
                return leaf(Operator.PARAMETER, value, least=least, largest=largest)
            case _:
                return unknown(expression, dtype_of(expression.type))


def bounded(term: Term) -> Term:
    """Bounds the size of a term, which the program could otherwise blow up. Beyond the limits it keeps its dependencies: uniformity over
    threads must not depend on our limits."""
    return term if term.depth <= DEEPEST and len(term.parts) <= MOST_PARTS else as_function_of_leaves(term)


def unknown(node: tree.Expression | tree.Statement, dtype: DType) -> Term:
    least, largest = machine.range_of(dtype)
    return leaf(Operator.UNKNOWN, node, least=least, largest=largest)
