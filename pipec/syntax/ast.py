"""The syntax tree: what was written, before any name is looked up. Every node knows its span."""

from dataclasses import dataclass

from pipec.source import Span


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Number:
    value: int | float
    span: Span


@dataclass(frozen=True, slots=True)
class String:
    value: str
    span: Span


@dataclass(frozen=True, slots=True)
class Boolean:
    value: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Attribute:
    value: "Expression"
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Subscript:
    value: "Expression"
    items: tuple["Expression", ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call; `name` is None for a positional one."""

    name: str | None
    value: "Expression"
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    callee: "Expression"
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Unary:
    operator: str
    operand: "Expression"
    span: Span


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic, comparison and logical operators alike; a chain `a < b < c` arrives as `a < b and b < c`."""

    operator: str
    left: "Expression"
    right: "Expression"
    span: Span


@dataclass(frozen=True, slots=True)
class Conditional:
    """`when_true if condition else when_false`."""

    condition: "Expression"
    when_true: "Expression"
    when_false: "Expression"
    span: Span


Expression = Name | Number | String | Boolean | Attribute | Subscript | Call | Unary | Binary | Conditional


@dataclass(frozen=True, slots=True)
class Assign:
    target: Name
    annotation: Expression | None
    value: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class AugmentedAssign:
    target: Name
    operator: str
    value: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Comptime:
    """`comptime NAME = value`: a compile-time constant."""

    target: Name
    annotation: Expression | None
    value: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Return:
    value: Expression | None
    span: Span


@dataclass(frozen=True, slots=True)
class Pass:
    span: Span


@dataclass(frozen=True, slots=True)
class ExpressionStatement:
    value: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class For:
    target: Name
    iterable: Expression
    body: tuple["Statement", ...]
    span: Span


@dataclass(frozen=True, slots=True)
class While:
    condition: Expression
    body: tuple["Statement", ...]
    span: Span


@dataclass(frozen=True, slots=True)
class If:
    """`elif` arrives as an If that is the only statement of `otherwise`."""

    condition: Expression
    then: tuple["Statement", ...]
    otherwise: tuple["Statement", ...]
    span: Span


@dataclass(frozen=True, slots=True)
class WithItem:
    context: Expression
    target: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class With:
    items: tuple[WithItem, ...]
    body: tuple["Statement", ...]
    span: Span


@dataclass(frozen=True, slots=True)
class RoleClause:
    """`produces a, b` or `consumes c`."""

    word: str
    pipelines: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Role:
    name: Name
    arguments: tuple[Argument, ...]
    clauses: tuple[RoleClause, ...]
    body: tuple["Statement", ...]
    span: Span  # of the header


Statement = Assign | AugmentedAssign | Comptime | Return | Pass | ExpressionStatement | For | While | If | With | Role


@dataclass(frozen=True, slots=True)
class Constant:
    """A compile-time parameter of a kernel: `BM: int = 128`."""

    name: Name
    annotation: Expression | None
    default: Expression | None
    span: Span


@dataclass(frozen=True, slots=True)
class Parameter:
    name: Name
    annotation: Expression | None
    span: Span


@dataclass(frozen=True, slots=True)
class Kernel:
    name: Name
    constants: tuple[Constant, ...]
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    span: Span  # of the header


@dataclass(frozen=True, slots=True)
class Function:
    name: Name
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class File:
    kernels: tuple[Kernel, ...]
    functions: tuple[Function, ...]
    constants: tuple[Comptime, ...]
