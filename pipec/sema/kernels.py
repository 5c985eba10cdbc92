"""Files and kernels: constants and helpers, then each kernel's parameters, declarations, grid and roles."""

from collections.abc import Mapping
from types import TracebackType

from pipec.budgets import BudgetEnded, Meter
from pipec.diag.catalogue.grid import clusters as cluster_messages
from pipec.diag.catalogue.language import constants as constants_messages
from pipec.diag.catalogue.language import names as messages
from pipec.diag.catalogue.language import placement as placement_messages
from pipec.diag.catalogue.language import types as types_messages
from pipec.diag.message import Sink
from pipec.diag.shown import shown
from pipec.isa.specials import AXES
from pipec.isa.targets import DEFAULT_TARGET, MOST_CLUSTER_CTAS, TARGETS, Target
from pipec.record import record, replace
from pipec.sema import tree
from pipec.sema.calls.dispatch import call
from pipec.sema.context import Context, Recursion
from pipec.sema.declarations.assumptions import read_assumption
from pipec.sema.declarations.launch_values import block_uniform, launch_uniform
from pipec.sema.declarations.parameters import default_value, read_constant, read_parameter
from pipec.sema.declarations.pipelines import declare, is_declaration
from pipec.sema.declarations.scheduling import clauses_of_walk, derived_grid, refuse_unused, scheduler_role
from pipec.sema.declarations.tuning import Tuning
from pipec.sema.meanings import EXPRESSIONS, Helper, Known, KnownValue, OfEachRole, Poison, Reported, TileSpec, describe
from pipec.sema.scope import Scope
from pipec.sema.statements.assignments import comptime
from pipec.sema.statements.dispatch import run_body
from pipec.sema.types import I32, TileType
from pipec.sema.values.arguments import bind_arguments
from pipec.sema.values.expected import coordinate, known, known_int
from pipec.sema.values.expressions import elaborate
from pipec.source import Span
from pipec.syntax import ast

_ROLE_SIGNATURE = 'role name(warps=1, registers=232, on="leader")'
_MOST_BLOCKS = {"x": 2**31 - 1, "y": 65_535, "z": 65_535}  # CUDA C++ Programming Guide, compute capabilities
# Names that the language allows for a kernel but PTX reserves.
_PTX_NAMES = {"WARP_SZ": "in PTX this is the number of threads of a warp", "_": "in PTX this is no name"}


def analyse(
    file: ast.File, sink: Sink, overrides: dict[str, object], only: str | None = None, target: Target = TARGETS[DEFAULT_TARGET]
) -> list[tree.Kernel]:
    """The typed kernels of a file (all, or the one called `only`); those with errors are reported and left out.

    `overrides` sets compile-time parameters from outside: numbers, conditions, element types, or their text.
    """
    scope = Scope()
    recursion = Recursion(elaborate, call, run_body)
    # Helpers that call each other twice grow one kernel exponentially, and many kernels share the budget of the file.
    of_file = Meter("file operations")
    try:
        with of_file.part("operations") as meter:
            context = Context(sink, scope, "file", target, recursion, meter)
            for constant in file.constants:
                with _Guarded(context, constant.target):
                    comptime(context, constant)
    except BudgetEnded as ended:
        _report_ended(ended, sink)
        return []
    # All of them before any kernel: a kernel may call a helper defined below it.
    for function in file.functions:
        with _Guarded(context, None):
            context.define(function.name, Helper(function))
    chosen = [kernel for kernel in file.kernels if only in (None, kernel.name.name)]
    if not chosen and only is not None:
        defined = ", ".join(f"`{kernel.name.name}`" for kernel in file.kernels) or "none"
        sink.report(messages.UnknownKernel(name=only, known=defined))
    _check_overrides(file.kernels, overrides, sink)
    kernels: list[tree.Kernel] = []
    seen: dict[str, Span] = {}
    for kernel in chosen:
        if kernel.name.name in seen:
            sink.report(messages.Redefined(name=kernel.name.name, at=kernel.name.span, first=seen[kernel.name.name]))
        # Both kernels are analysed anyway, each with its own errors.
        seen[kernel.name.name] = kernel.name.span
        before = len(sink.diagnostics)
        try:
            with of_file.part("operations") as meter:
                inner = Context(sink, scope.inner(), "kernel", target, recursion, meter)
                analysed = _Kernel(kernel, inner, overrides).analyse()
        except BudgetEnded as ended:
            _report_ended(ended, sink)
            continue
        # Later stages must not see an incomplete tree: they would report the consequences of this error.
        if len(sink.diagnostics) == before:
            kernels.append(analysed)
    return kernels


def _report_ended(ended: BudgetEnded, sink: Sink) -> None:
    """A kernel that is too large does not affect the others; exceeding the shared budget ends the file."""
    if ended.budget.code != placement_messages.TooManyInlined.code:
        raise ended
    assert isinstance(ended.at, Span)  # operations are counted with their spans
    sink.report(placement_messages.TooManyInlined(limit=f"{ended.budget.limit:,}", at=ended.at))


@record
class _Guarded:
    """Limits an error to this part; the name that it would have defined is poisoned, so that its uses are not reported as well."""

    context: Context
    target: ast.Name | None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, Reported):
            return False
        context, target = self.context, self.target
        if target is not None and target.name not in context.scope.names:
            context.bind(target.name, Poison(), target.span)
        return True


def _behind_the_wait(read: list[tree.Assign], body: list[tree.Statement]) -> tuple[tree.Statement, ...]:
    """The body with what it reads first: behind statements that wait for preceding grids, which may have written that."""
    waits = next(
        (place for place, one in enumerate(body) if not isinstance(one, tree.AwaitGrids | tree.LaunchDependents)), len(body)
    )
    return (*body[:waits], *read, *body[waits:])


def _last_span(body: tuple[ast.Statement, ...]) -> Span | None:
    """The textual end of a body: its last statement that contains no other."""
    if not body:
        return None
    last = body[-1]
    match last:
        case ast.For() | ast.While() | ast.With():
            return _last_span(last.body) or last.span
        case ast.If():
            return _last_span(last.otherwise) or _last_span(last.then) or last.span
        case _:
            return last.span


def _check_overrides(kernels: tuple[ast.Kernel, ...], overrides: dict[str, object], sink: Sink) -> None:
    names = {constant.name.name for kernel in kernels for constant in kernel.constants}
    for name, value in overrides.items():
        if name not in names:
            text = value if isinstance(value, str) else shown(value)
            known = ", ".join(sorted(names)) or "none"
            # `pipec.kernel` takes each constant as an argument, `pipec.compile` all of them as one.
            each = isinstance(value, Mapping) and "give each as an argument of its own: `pipec.kernel(source, NAME=value)`"
            sink.report(constants_messages.UnknownConstant(name=name, value=text, known=known, instead=each or None))


class _Kernel:
    """The analysis of one kernel, in source order."""

    def __init__(self, node: ast.Kernel, context: Context, overrides: dict[str, object]) -> None:
        self.node, self.context, self.overrides = node, context, overrides
        self._grid: tuple[tree.Expression, tree.Expression, tree.Expression] | None = None
        self._grid_failed = False
        self._cluster = tree.ONE_CTA
        self._roles: list[tree.Role] = []
        self._role_names: dict[str, Span] = {}
        self._pipelines: list[tree.Pipeline] = []
        self._buffers: list[tree.Buffer] = []
        self._stated_grid: tree.StatedGrid | None = None
        self._constants: dict[str, KnownValue] = {}
        self._tuning = Tuning(self.context, self.node, frozenset(self.overrides), default_value)

    def analyse(self) -> tree.Kernel:
        context, node = self.context, self.node
        # An inlined helper sees this scope and its parameters, never the names at the call site: a helper means the same everywhere.
        context.kernel_scope = context.scope
        if node.name.name in _PTX_NAMES:
            name = node.name.name
            better = "name" if name == "_" else name.lower()
            context.sink.report(
                placement_messages.KernelName(kernel=name, meaning=_PTX_NAMES[name], better=better, at=node.name.span)
            )
        for constant in node.constants:
            # Each separately, so that one invalid default does not hide the errors of the others.
            with _Guarded(context, constant.name):
                self._constants.update(read_constant(context, constant, self.overrides))
        tensors: list[tree.TensorParameter] = []
        scalars: list[tree.ScalarParameter] = []
        for parameter in node.parameters:
            with _Guarded(context, parameter.name):
                read_parameter(context, parameter, tensors, scalars)
        self._body(node.body)
        # After the roles: only they determine whether the scheduler is used, and which role runs ahead.
        self._finish_schedule()
        tuning = self._candidates()
        if self._grid is None and not self._grid_failed and not context.walks.declared:
            context.sink.report(placement_messages.MissingGrid(kernel=node.name.name, at=node.name.span))
        if not self._role_names:
            context.sink.report(placement_messages.NoRoles(kernel=node.name.name, at=node.name.span))
        one = tree.Constant(1, I32, node.span)
        return tree.Kernel(
            node.name.name,
            node.document.strip(),
            tuple(tensors),
            tuple(scalars),
            dict(self._constants),
            self._grid or (one, one, one),
            tuple(self._pipelines),
            tuple(self._buffers),
            tuple(self._roles),
            node.name.span,
            self._cluster,
            tuple(parameter.name.name for parameter in node.parameters),
            tuple(context.stated),
            tuple(context.allocations),
            programmatic=context.programmatic[0] if context.programmatic else None,
            schedule=context.walks.schedule,
            stated_grid=self._stated_grid,
            tuning=tuning,
            assumptions=tuple(context.assumptions),
        )

    def _candidates(self) -> tree.Tuning | None:
        try:
            return self._tuning.finish(self._constants)
        except Reported:
            return None

    def _finish_schedule(self) -> None:
        """A tile scheduler determines the grid of the kernel, and may add a role."""
        schedule = self.context.walks.schedule
        if schedule is None:
            return
        if len(self._roles) == len(self._role_names):  # else one that was given up may be the one that iterates
            refuse_unused(self.context)
        self._grid = derived_grid(self.context, schedule)
        role, pipelines = scheduler_role(self.context)
        self._pipelines += pipelines
        self._roles += [] if role is None else [role]

    # ----------------------------------------------------------------------------------------------------------- body

    def _body(self, body: tuple[ast.Statement, ...]) -> None:
        for statement in body:
            target = statement.target if isinstance(statement, ast.Assign | ast.Comptime) else None
            with _Guarded(self.context, target):
                self._statement(statement)

    def _statement(self, statement: ast.Statement) -> None:
        context = self.context
        match statement:
            case ast.Role():
                self._role(statement)
            case ast.Comptime():
                comptime(context, statement)
            case ast.Tune():
                self._tuning.read(statement, self._constants)
            case ast.Assign():
                self._declaration(statement)
            case ast.If():
                # No thread runs here, so nothing could decide at run time.
                holds = known(context, statement.condition, bool, "a condition outside a role", "a condition")
                self._body(statement.then if holds else statement.otherwise)
            case ast.ExpressionStatement(ast.String()) | ast.Pass():
                pass
            # A program may define these names itself; then they are ordinary calls.
            case ast.ExpressionStatement(ast.Call(ast.Name("grid"))) if context.scope.find("grid") is None:
                self._read_grid(statement.value)
            case ast.ExpressionStatement(ast.Call(ast.Name("cluster"))) if context.scope.find("cluster") is None:
                self._read_cluster(statement.value)
            case ast.ExpressionStatement(ast.Call(ast.Name("assume"))) if context.scope.find("assume") is None:
                context.assumptions.append(read_assumption(context, statement.value))
            case ast.ExpressionStatement(ast.Call()):
                run_body(context, (statement,))
            case ast.Return():
                context.misplaced_return(statement.span)
            case ast.ExpressionStatement():
                context.fail(placement_messages.NoEffect(hint=None, at=statement.span))
            case _:
                context.fail(
                    placement_messages.Misplaced(
                        what="this statement", where="outside a role", to="into a role", at=statement.span
                    )
                )

    def _declaration(self, statement: ast.Assign) -> None:
        context = self.context
        kind = is_declaration(statement.value)
        if kind is not None:
            assert isinstance(statement.value, ast.Call)
            declare(context, statement.target, statement.value, kind)
            declared = context.scope.names[statement.target.name].meaning
            if isinstance(declared, tree.Pipeline):
                self._pipelines.append(declared)
                self._buffers.extend(context.buffers[declared])
            elif isinstance(declared, tree.Buffer):
                self._buffers.append(declared)
            return
        meaning = context.elaborate(statement.value)
        if isinstance(meaning, Known | TileSpec):
            context.define(statement.target, meaning)
            return
        if isinstance(meaning, EXPRESSIONS) and not isinstance(meaning.type, TileType):
            # A name for a value that is uniform in a block; it stands for its expression. Roles see the name, and each thread evaluates
            # the expression itself, so it must not depend on the thread.
            name = statement.target
            read = block_uniform(context, meaning, f"`{name.name}`")
            context.define(name, OfEachRole(name.name, meaning, name.span) if read else meaning)
            return
        context.fail(
            types_messages.WrongType(
                what="what a kernel declares",
                expected="a pipeline, a buffer, or a number",
                found=describe(meaning),
                at=statement.value.span,
            )
        )

    def _read_grid(self, node: ast.Expression) -> None:
        context = self.context
        assert isinstance(node, ast.Call)
        if self._stated_grid is not None:
            context.fail(messages.Redefined(name="grid", at=node.span, first=self._stated_grid.span))
        # An error in it is reported below; the missing grid is then not reported as well.
        self._grid_failed = True
        bound = bind_arguments(context, node, "grid", ("x",), ("y", "z"))

        def size(axis: str) -> tree.Expression:
            with context.for_launch():
                found = coordinate(context, bound[axis]) if axis in bound else tree.Constant(1, I32, node.span)
            launch_uniform(context, found, "the grid")
            if isinstance(found, tree.Constant) and not 1 <= found.value <= _MOST_BLOCKS[axis]:
                size = int(found.value)
                context.sink.report(placement_messages.GridSize(size=size, axis=axis, most=_MOST_BLOCKS[axis], at=found.span))
            return found

        self._grid = context.grid = size("x"), size("y"), size("z")
        self._stated_grid = tree.StatedGrid(self._grid, node.span)

    def _read_cluster(self, node: ast.Expression) -> None:
        context = self.context
        assert isinstance(node, ast.Call)
        if self._cluster.span is not None:
            context.fail(messages.Redefined(name="cluster", at=node.span, first=self._cluster.span))
        bound = bind_arguments(context, node, "cluster", ("x",), ("y", "z"))
        x, y, z = (known_int(context, bound[axis], "the size of a cluster") if axis in bound else 1 for axis in AXES)
        if min(x, y, z) < 1 or x * y * z > MOST_CLUSTER_CTAS:
            context.fail(
                cluster_messages.ClusterSize(shape=f"{x} x {y} x {z}", ctas=x * y * z, most=MOST_CLUSTER_CTAS, at=node.span)
            )
        self._cluster = context.cluster = tree.Cluster((x, y, z), node.span)
        # Such a role has already been analysed, with one CTA per tile.
        if context.walks.loops:
            where, to = "behind a role that walks over tiles", "before the roles"
            context.fail(placement_messages.Misplaced(what="`cluster(...)`", where=where, to=to, at=node.span))

    # ---------------------------------------------------------------------------------------------------------- roles

    def _role(self, node: ast.Role) -> None:
        context, name = self.context, node.name.name
        first = self._role_names.get(name)
        if first is not None:
            context.fail(messages.Redefined(name=name, at=node.name.span, first=first))
        # Before the body is analysed: a role with an error still counts, so that "no roles" is not reported as well.
        self._role_names[name] = node.name.span
        header = ast.Call(node.name, node.arguments, node.span)
        bound = bind_arguments(context, header, "role", (), ("warps", "registers", "on"), _ROLE_SIGNATURE)
        warps = known_int(context, bound["warps"], "the number of warps") if "warps" in bound else 1
        registers = known_int(context, bound["registers"], "the register budget") if "registers" in bound else None
        leader = "on" in bound and self._on_leader(bound["on"])
        produces: list[tree.Pipeline] = []
        consumes: list[tree.Pipeline] = []
        for clause in node.clauses:
            pipelines = produces if clause.word == "produces" else consumes
            pipelines.extend(self._clause_pipeline(pipeline) for pipeline in clause.pipelines)
        # New stages and variables: those of one role are not visible in another. The kernel's declarations stay shared.
        inner = replace(
            context,
            scope=context.scope.inner(),
            place="role",
            statements=[],
            current={},
            stage_numbers={},
            picked=set(),
            role=node,
            own={},
        )
        run_body(inner, node.body)
        read = [tree.Assign(variable, one.value, one.span) for one, variable in inner.own.items()]
        # What is still held at that point is reported at the end of the role's text, not at its header.
        end = _last_span(node.body) or node.span
        throttles, responses = clauses_of_walk(context, name)
        self._roles.append(
            tree.Role(
                name,
                warps,
                registers,
                (*produces, *throttles),
                (*consumes, *responses),
                _behind_the_wait(read, inner.statements),
                node.name.span,
                end,
                leader,
            )
        )

    def _on_leader(self, node: ast.Expression) -> bool:
        where = known(self.context, node, str, "where a role runs", '`"leader"` or `"all"`')
        if where not in ("leader", "all"):
            self.context.fail(
                types_messages.WrongType(
                    what="where a role runs", expected='`"leader"` or `"all"`', found=f"`{node.span.text()}`", at=node.span
                )
            )
        return where == "leader"

    def _clause_pipeline(self, name: ast.Name) -> tree.Pipeline:
        meaning = self.context.look_up(name)
        if not isinstance(meaning, tree.Pipeline):
            self.context.fail(
                types_messages.WrongType(what=f"`{name.name}`", expected="a pipeline", found=describe(meaning), at=name.span)
            )
        return meaning
