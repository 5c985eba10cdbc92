"""The syntax tree: the source as written, before name resolution. Every node has a span."""

from typing import Literal

from pipec.record import record
from pipec.source import Span
from pipec.vocabulary import BinaryOperator, UnaryOperator


@record
class Name:
    name: str
    span: Span


@record
class Number:
    value: int | float
    span: Span


@record
class String:
    value: str
    span: Span


@record
class Boolean:
    value: bool
    span: Span


@record
class Attribute:
    value: "Expression"
    name: str
    span: Span


@record
class Subscript:
    value: "Expression"
    items: tuple["Expression", ...]
    span: Span


@record
class Argument:
    """One argument of a call; `name` is None for a positional one."""

    name: str | None
    value: "Expression"
    span: Span


@record
class Call:
    callee: "Expression"
    arguments: tuple[Argument, ...]
    span: Span


@record
class Unary:
    operator: UnaryOperator | Literal["+"]
    operand: "Expression"
    span: Span


@record
class Binary:
    """Arithmetic, comparison and logical operators alike; a chain `a < b < c` arrives as `a < b and b < c`."""

    operator: BinaryOperator
    left: "Expression"
    right: "Expression"
    span: Span


@record
class Conditional:
    """`when_true if condition else when_false`."""

    condition: "Expression"
    when_true: "Expression"
    when_false: "Expression"
    span: Span


Expression = Name | Number | String | Boolean | Attribute | Subscript | Call | Unary | Binary | Conditional


@record
class Assign:
    target: Name
    annotation: Expression | None
    value: Expression
    span: Span


@record
class AugmentedAssign:
    target: Name
    operator: BinaryOperator
    value: Expression
    span: Span


@record
class Comptime:
    """`comptime NAME = value`: a compile-time constant."""

    target: Name
    annotation: Expression | None
    value: Expression
    span: Span


@record
class Tuned:
    """`BM in (64, 128)`: the candidate values of a compile-time parameter."""

    name: Name
    values: tuple[Expression, ...]
    span: Span


@record
class Tune:
    """`tune BM in (64, 128), STAGES in (3, 4) where BM * STAGES < 512`: the candidate tiles."""

    parameters: tuple[Tuned, ...]
    condition: Expression | None
    span: Span


@record
class Return:
    value: Expression | None
    span: Span


@record
class Pass:
    span: Span


@record
class ExpressionStatement:
    value: Expression
    span: Span


@record
class For:
    target: Name
    iterable: Expression
    body: tuple["Statement", ...]
    span: Span


@record
class While:
    condition: Expression
    body: tuple["Statement", ...]
    span: Span


@record
class If:
    """`elif` arrives as an If that is the only statement of `otherwise`."""

    condition: Expression
    then: tuple["Statement", ...]
    otherwise: tuple["Statement", ...]
    span: Span


@record
class WithItem:
    context: Expression
    target: Name | None
    span: Span


@record
class With:
    items: tuple[WithItem, ...]
    body: tuple["Statement", ...]
    span: Span


@record
class RoleClause:
    """`produces a, b` or `consumes c`."""

    word: Literal["produces", "consumes"]
    pipelines: tuple[Name, ...]
    span: Span


@record
class Role:
    name: Name
    arguments: tuple[Argument, ...]
    clauses: tuple[RoleClause, ...]
    body: tuple["Statement", ...]
    span: Span  # of the header


Statement = Assign | AugmentedAssign | Comptime | Tune | Return | Pass | ExpressionStatement | For | While | If | With | Role


@record
class Constant:
    """A compile-time parameter of a kernel: `BM: int = 128`."""

    name: Name
    annotation: Expression | None
    default: Expression | None
    span: Span


@record
class Parameter:
    name: Name
    annotation: Expression | None
    span: Span


@record
class Kernel:
    name: Name
    constants: tuple[Constant, ...]
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    span: Span  # of the header

    @property
    def document(self) -> str:
        """The docstring."""
        match self.body:
            case (ExpressionStatement(String(text)), *_):
                return text
            case _:
                return ""


@record
class Function:
    name: Name
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    span: Span


@record
class File:
    kernels: tuple[Kernel, ...]
    functions: tuple[Function, ...]
    constants: tuple[Comptime, ...]
