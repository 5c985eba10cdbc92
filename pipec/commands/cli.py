"""The command line: its commands by name. Exit status 0: success, 1: diagnostics on stderr, 2: usage error."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pipec._version import VERSION
from pipec.api.files import cannot_write, read_input, spare, write_output
from pipec.budgets import BUDGETS, BudgetEnded
from pipec.commands.guard import Guard
from pipec.commands.options import CALL_OPTIONS, CHECKS, FORMS, LIBRARY, parser_of, with_watchdog
from pipec.commands.printer import Printer
from pipec.diag.catalogue.commands import run as run_messages
from pipec.diag.catalogue.commands import verification as verification_messages
from pipec.diag.catalogue.language import syntax as syntax_messages
from pipec.diag.message import Diagnostic, Failure
from pipec.record import fields_of

# `pipec verify` must not depend on the compiler: the commands that compile import it themselves.
if TYPE_CHECKING:
    from pipec.driver import Compilation

# What `--emit` writes, and the stage that produces it.
_EMITTED = {"ast": "parse", "kir": "build", "llvm": "prove", "ptx": "prove", "cubin": "prove"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status."""
    given = with_watchdog(sys.argv[1:] if arguments is None else arguments)
    options = parser_of(_COMMANDS, given).parse_args(given)
    options.printer = Printer(options.message_format)
    try:
        with Guard(
            options.max_seconds, options.max_memory, lambda ended: _refuse(ended, options.message_format)
        ) as options.guard:
            return _run_command(options)
    except Failure as failure:
        _print_diagnostics(failure.diagnostics, options.message_format)
        return 1
    except BudgetEnded as ended:
        return _refuse(ended, options.message_format)
    except MemoryError:
        return _refuse(BudgetEnded(BUDGETS["memory"]), options.message_format)
    except RecursionError:
        from pipec.diag.catalogue.commands.internal import TooComplex

        _print_diagnostics([TooComplex(at=None).diagnostic()], options.message_format)
        return 1
    except BrokenPipeError:
        # The reader of our output is gone (`pipec ... | head`).
        _silence()
        return 1
    except KeyboardInterrupt:
        print("pipec: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if os.environ.get("PIPEC_DEBUG"):
            raise
        from pipec.diag.catalogue.commands.internal import fault

        stage = f"{options.command.__name__.strip('_')} command"
        _print_diagnostics([fault(stage, error).diagnostic()], options.message_format)
        return 1


def _refuse(ended: BudgetEnded, form: str) -> int:
    from pipec.diag.catalogue.commands.internal import budget_spent

    _print_diagnostics([budget_spent(ended).diagnostic()], form)
    return 1


def _run_command(options: argparse.Namespace) -> int:
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        status = command(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:  # file errors are reported elsewhere; this one is from printing
        _silence()
        raise cannot_write("standard output", error) from None
    return status


def _silence() -> None:
    """Discards further output, including what is flushed at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version(_: argparse.Namespace) -> int:
    from importlib.metadata import PackageNotFoundError, version

    print(f"pipec {VERSION}")
    for package in ("llvmlite", "lark", "cuda-python", "nvidia-nvjitlink", "nvidia-cuda-nvcc"):
        try:
            print(f"{package} {version(package)}")
        except PackageNotFoundError:
            print(f"{package} not installed")
    return 0


def _compiled(options: argparse.Namespace, until: str = "prove") -> "Compilation":
    from pipec.driver import Options, compile_source

    if options.file.startswith(LIBRARY):
        reason = "`build`, `predict` and `tune` take kernels of the library, this command a file"
        raise Failure(syntax_messages.Unreadable(name=options.file, reason=reason))
    watchdog = getattr(options, "watchdog", None)
    wanted = Options(
        options.arch,
        dict(options.constants),
        options.kernel,
        watchdog,
        allow_undecided=options.allow_undecided,
        timestamps=getattr(options, "timestamps", False),
        remembers=True,
    )
    state = compile_source(read_input(options.file), wanted, until)
    if state.failed:
        raise Failure(*state.diagnostics)
    return state


def _compile(options: argparse.Namespace) -> int:
    spare(options.file, options.output, options.certificate)
    if options.certificate is not None and (options.watchdog is not None or options.timestamps):
        raise Failure(verification_messages.CertificateOfWatched())
    state = _compiled(options, "prove" if options.certificate is not None else _EMITTED[options.emit])
    data = _emitted(state, options.emit)
    write_output(options.output, data)
    _write_certificates(options, state)
    if options.output not in (None, "-"):  # standard output has only the requested result
        kernels = [kernel.name.name for kernel in state.file.kernels] if state.file else []
        options.printer.row("output", file=options.output, form=options.emit, arch=state.arch, kernels=kernels)
    return 0


def _write_certificates(options: argparse.Namespace, state: "Compilation") -> None:
    from pipec.verify.document import document_of, to_json

    if options.certificate is not None:
        assert state.ptx is not None
        write_output(options.certificate, to_json(document_of(state.ptx, state.certificates.values())))


def _emitted(state: "Compilation", form: str) -> str | bytes:
    match form:
        case "ast":
            from pipec.syntax.text import file_text

            assert state.file is not None
            return file_text(state.file)
        case "kir":
            from pipec.kir.text import kernel_text

            assert state.kernels is not None
            return "\n".join(kernel_text(kernel) for kernel in state.kernels)
        case "llvm":
            assert state.llvm is not None
            return state.llvm
        case "cubin":
            from pipec.api.program import Program

            return Program(state).cubin()
        case _:
            assert state.ptx is not None
            return state.ptx


def _build(options: argparse.Namespace) -> int:
    from pipec.commands.build import build_bundle

    return build_bundle(options)


def _check(options: argparse.Namespace) -> int:
    from pipec.api.report import report_of, statements

    printer: Printer = options.printer
    spare(options.file, options.certificate)
    state = _compiled(options)
    assert state.plans is not None
    for plan in state.plans:
        report = report_of(plan, state.protocol[plan.kernel.name], state.findings.get(plan.kernel.name))
        printer.text(f"{report.name}: every check passed for {state.arch}")
        for word, sentence in statements(report):
            printer.text(f"  {word:7} {sentence}")
        printer.row("kernel", arch=state.arch, **fields_of(report))
    _write_certificates(options, state)
    return 0


def _verify(options: argparse.Namespace) -> int:
    from pipec.commands.verification import verify

    return verify(options)


def _spare_timeline(options: argparse.Namespace) -> None:
    spare(options.file, options.timeline)
    if options.timeline:
        from pipec.commands.launching.timeline_page import check_timeline

        check_timeline(options.timeline)


def _run(options: argparse.Namespace) -> int:
    from pipec.commands.launching.run import run_kernels

    _spare_timeline(options)
    return run_kernels(_compiled(options), options)


def _sim(options: argparse.Namespace) -> int:
    said = [f"--{option}" for name, option in CALL_OPTIONS.items() if getattr(options, name)]
    if options.launch and said:
        raise Failure(
            run_messages.BadArgument(option="--launch", text=options.launch, problem=f"says all of a call; leave out {said[0]}")
        )
    if options.launch or said:
        from pipec.commands.launching.foreign import run_foreign

        return run_foreign(options)
    from pipec.commands.launching.run import run_ptx

    _spare_timeline(options)
    return run_ptx(options)


def _tune(options: argparse.Namespace) -> int:
    from pipec.commands.tuner import tune

    spare(options.file, options.output)
    if options.file.startswith(LIBRARY):
        from pipec.commands.of_library import kernel_of_library

        return tune([kernel_of_library(options, options.arch)], options)
    from pipec.api.program import Program

    return tune([*Program(_compiled(options)).values()], options)


def _predict(options: argparse.Namespace) -> int:
    from pipec.commands.predictor import predict

    _spare_timeline(options)
    if options.launch:
        from pipec.commands.launched import predict_launch

        return predict_launch(options)
    if options.file.endswith(".ptx"):
        from pipec.commands.ptx_predictor import predict_ptx_file

        return predict_ptx_file(options)
    if options.file.startswith(LIBRARY):
        from pipec.commands.of_library import predict_chosen

        return predict_chosen(options)
    return predict(_compiled(options, "limits"), options)


def _triton(options: argparse.Namespace) -> int:
    from pipec.commands.launching.python_program import run_program, triton

    return run_program(options, triton())


def _cute(options: argparse.Namespace) -> int:
    from pipec.commands.launching.python_program import cute, run_program

    return run_program(options, cute())


_CHECK = "a check of the simulator"


def _explain(options: argparse.Namespace) -> int:
    from pipec.diag.explain import explain, load_catalogue, plain_title
    from pipec.verify.explanation import TITLE, explanation

    if options.code is not None and options.code.lower() == "proof":
        options.printer.text(explanation().rstrip("\n"))
        options.printer.row("topic", topic="proof", title=TITLE, text=explanation())
        return 0
    if options.code in CHECKS:
        from pipec.sim.findings import explained

        options.printer.text(f"{options.code}: {_CHECK}\n\n{explained(options.code)}")
        options.printer.row("topic", topic=options.code, title=_CHECK, text=explained(options.code))
        return 0
    if options.code is None:
        options.printer.text(f"{', '.join(CHECKS)}: checks of the simulator (`--check`)")
        for name in CHECKS:
            options.printer.row("topic", topic=name, title=_CHECK)
        options.printer.text(f"proof  {TITLE}")
        options.printer.row("topic", topic="proof", title=TITLE)
        for code, message in sorted(load_catalogue().items()):
            options.printer.text(f"{code}  {plain_title(message)}")
            options.printer.row("code", code=code, title=plain_title(message))
        return 0
    text = explain(options.code)
    if text is None:
        from pipec.diag.catalogue.commands.run import UnknownCode

        families = sorted({code[:3] for code in load_catalogue()})
        raise Failure(UnknownCode(asked=options.code, known=", ".join(f"{family}xx" for family in families)))
    options.printer.text(text.rstrip("\n"))
    options.printer.row("code", code=options.code.upper(), title=text.split("\n")[0].partition(": ")[2], text=text)
    return 0


def _print_diagnostics(diagnostics: Sequence[Diagnostic], form: str) -> None:
    from pipec.diag.render import render_json, render_text

    text = render_json(diagnostics) if form == "json" else render_text(diagnostics)
    # A file name need not be valid text.
    print(text.encode(errors="backslashreplace").decode(), end="", file=sys.stderr)
    if form == "text":
        count = len(diagnostics)
        print(f"\n{count} error{'' if count == 1 else 's'}; for details, run `pipec explain CODE`", file=sys.stderr)


_COMMANDS = {
    "version": _version,
    "compile": _compile,
    "build": _build,
    "check": _check,
    "verify": _verify,
    "run": _run,
    "sim": _sim,
    "tune": _tune,
    "predict": _predict,
    "triton": _triton,
    "cute": _cute,
    "explain": _explain,
}

assert tuple(_EMITTED) == FORMS

if __name__ == "__main__":
    sys.exit(main())
