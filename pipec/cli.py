"""The command line: `pipec compile | check | run | sim | explain`. Exit 0 fine, 1 diagnostics on stderr, 2 usage."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from pipec._version import VERSION
from pipec.diag.message import Diagnostic, Failure
from pipec.driver import STAGES, Compilation, Options, compile_source
from pipec.files import cannot_write, read_source, write_output
from pipec.isa.targets import DEFAULT_TARGET, TARGETS
from pipec.watchdog import DEFAULT_SECONDS, MOST_SECONDS, seconds_of

# What `--emit` writes, and the stage after which it exists.
_EMITTED = {"ast": "parse", "kir": "build", "llvm": "lower", "ptx": "emit", "cubin": "emit"}


# What `--watchdog` alone means. (An option whose value may be left out would take the file for it.)
_WATCHDOG = f"--watchdog={DEFAULT_SECONDS:g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args([_WATCHDOG if word == "--watchdog" else word for word in given])
    try:
        return _run_command(options)
    except Failure as failure:
        _print_diagnostics(failure.diagnostics, options.message_format)
        return 1
    except BrokenPipeError:
        # The reader of our output has gone (`pipec ... | head`): nothing is left to say.
        _silence()
        return 1
    except KeyboardInterrupt:
        print("pipec: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if os.environ.get("PIPEC_DEBUG"):
            raise
        from pipec.diag.catalogue.internal import InternalError

        stage = f"{options.command.__name__.strip('_')} command"
        _print_diagnostics(
            [InternalError(stage=stage, error=f"{type(error).__name__}: {error}").diagnostic()], options.message_format
        )
        return 1


def _run_command(options: argparse.Namespace) -> int:
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        status = command(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:  # files report their own troubles; what is left is printing
        _silence()
        raise cannot_write("standard output", error) from None
    return status


def _silence() -> None:
    """Nothing more goes to standard output, also not when the process ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# ---------------------------------------------------------------------------------------------------------------- options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pipec", description="Compiles, checks, simulates and runs pipec kernels.")
    parser.add_argument("--version", action="store_const", dest="command", const=_version, help="print versions and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--message-format", choices=("text", "json"), default="text", help="how diagnostics are printed")
    source = argparse.ArgumentParser(add_help=False, parents=[shared])
    source.add_argument("file", metavar="FILE", help="a .pipe source")
    source.add_argument(
        "--arch", choices=tuple(TARGETS), help=f"the target (default: the docstring's `arch:` line, or {DEFAULT_TARGET})"
    )
    source.add_argument(
        "-D",
        dest="constants",
        metavar="NAME=VALUE",
        type=_assignment,
        action="append",
        default=[],
        help="set a compile-time parameter; may be repeated",
    )
    source.add_argument("--kernel", metavar="NAME", help="only this kernel of the file")
    source.add_argument(
        "--allow-undecided",
        action="store_true",
        help="take kernels of which neither a proof of freedom from deadlock nor a deadlock is found",
    )

    watched = argparse.ArgumentParser(add_help=False)
    watched.add_argument(
        "--watchdog",
        metavar="SECONDS",
        type=_seconds,
        help="end with a report instead of hanging: bound each wait on a barrier (`--watchdog` alone: 1 second, else `=SECONDS`)",
    )

    one = commands.add_parser("compile", parents=[source, watched], help="source to PTX (or another form)")
    one.add_argument("-o", dest="output", metavar="OUT", help="where to write (default: standard output)")
    one.add_argument("--emit", choices=tuple(_EMITTED), default="ptx", help="what to write (default %(default)s)")
    one.set_defaults(command=_compile)

    two = commands.add_parser("check", parents=[source], help="all checks, no output file; prints what was proved")
    two.set_defaults(command=_check)

    three = commands.add_parser("run", parents=[source, watched], help="compile, run with random inputs, compare with NumPy")
    three.add_argument("--device", default="auto", choices=("auto", "cuda", "sim"), help="where to run (default %(default)s)")
    three.add_argument(
        "--shape",
        dest="shapes",
        metavar="NAME=SIZE",
        type=_assignment,
        action="extend",
        nargs="+",
        default=[],
        help="sizes of launch-bound dimensions, values of scalars",
    )
    three.add_argument("--seed", type=int, default=0, help="of the random inputs (default %(default)s)")
    _add_simulation(three)
    three.set_defaults(command=_run)

    four = commands.add_parser("sim", parents=[shared], help="run a PTX file in the simulator")
    four.add_argument("file", metavar="PTX", help="a PTX file, of pipec or of another compiler")
    four.add_argument("--kernel", metavar="NAME", help="the entry to run (default: the only one)")
    four.add_argument(
        "--shape",
        dest="shapes",
        metavar="NAME=SIZE",
        type=_assignment,
        action="extend",
        nargs="+",
        default=[],
        help="sizes of launch-bound dimensions, values of scalars (PTX of pipec)",
    )
    four.add_argument("--seed", type=int, default=0, help="of the random inputs and of --timing random (default %(default)s)")
    _add_launch(four)
    _add_simulation(four)
    four.set_defaults(command=_sim)

    five = commands.add_parser("explain", parents=[shared], help="the long text of a diagnostic code")
    five.add_argument("code", metavar="CODE", help="for example E0303")
    five.set_defaults(command=_explain)
    parser.set_defaults(
        command=lambda _: parser.error("a command is needed: compile, check, run, sim or explain"), message_format="text"
    )
    return parser


def _add_launch(parser: argparse.ArgumentParser) -> None:
    """How a kernel is called that does not say it itself."""
    group = parser.add_argument_group("calling a kernel of another compiler (docs/simulator.md)")
    group.add_argument(
        "--arg",
        dest="arguments",
        metavar="ARGUMENT",
        action="append",
        default=[],
        help="the next parameter: i32:200, a=f16[128,64]:random, @a.npy, map(a; box=64,64; swizzle=128B), raw(64; 0=a; 8=i32:5)",
    )
    for name, what in (("--grid", "CTAs of the grid"), ("--block", "threads of a CTA"), ("--cluster", "CTAs of a cluster")):
        group.add_argument(name, type=_extents, metavar="X[,Y[,Z]]", help=what)
    group.add_argument("--shared", type=_bytes, default=0, metavar="BYTES", help="dynamic shared memory (default %(default)s)")
    group.add_argument(
        "--save",
        metavar="NAME=FILE",
        type=_assignment,
        action="append",
        default=[],
        help="write this array to a .npy file afterwards; may be repeated",
    )


def _add_simulation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timing",
        type=lambda name: name.removeprefix("in-"),
        choices=("order", "late", "random"),
        default="order",
        metavar="{in-order,late,random}",
        help="when asynchronous operations complete in the simulator (default in-order)",
    )
    parser.add_argument(
        "--steps",
        type=_positive,
        default=50_000_000,
        metavar="N",
        help="warp instructions after which the simulator gives up (default %(default)s)",
    )
    parser.add_argument("--timeline", metavar="JSON", help="write the simulated timeline for Chrome or Perfetto")


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _seconds(text: str) -> float:
    seconds = seconds_of(f"watchdog={text}")
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds, more than 0 and at most {MOST_SECONDS}")
    return seconds


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _bytes(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes")
    return int(text)


def _extents(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not X, X,Y or X,Y,Z")
    return tuple(_positive(part) for part in parts)


# --------------------------------------------------------------------------------------------------------------- commands


def _version(_: argparse.Namespace) -> int:
    from importlib.metadata import PackageNotFoundError, version

    print(f"pipec {VERSION}")
    for package in ("llvmlite", "lark", "cuda-python", "nvidia-nvjitlink", "nvidia-cuda-nvcc"):
        try:
            print(f"{package} {version(package)}")
        except PackageNotFoundError:
            print(f"{package} not installed")
    return 0


def _compiled(options: argparse.Namespace, until: str = "emit") -> Compilation:
    watchdog = getattr(options, "watchdog", None)
    wanted = Options(
        options.arch, dict(options.constants), options.kernel, watchdog, allow_undecided=options.allow_undecided
    )
    state = compile_source(read_source(options.file), wanted, until)
    if state.failed:
        raise Failure(*state.diagnostics)
    return state


def _compile(options: argparse.Namespace) -> int:
    state = _compiled(options, _EMITTED[options.emit])
    write_output(options.output, _emitted(state, options.emit))
    return 0


def _emitted(state: Compilation, form: str) -> str | bytes:
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
            from pipec.program import Program

            return Program(state).cubin()
        case _:
            assert state.ptx is not None
            return state.ptx


def _check(options: argparse.Namespace) -> int:
    from pipec.report import report_of

    state = _compiled(options, "limits")
    assert state.plans is not None
    for plan in state.plans:
        report = report_of(plan, state.protocol[plan.kernel.name])
        print(f"{report.name}: every check passed for {state.arch}")
        for proof in report.proofs:
            print(f"  proved  {proof}")
        for question in report.undecided:
            print(f"  open    {question}")
    return 0


def _run(options: argparse.Namespace) -> int:
    from pipec.run import run_kernels

    return run_kernels(_compiled(options), options)


def _sim(options: argparse.Namespace) -> int:
    if options.arguments or options.save or options.grid or options.block or options.cluster or options.shared:
        from pipec.foreign import run_foreign

        return run_foreign(options)
    from pipec.run import run_ptx

    return run_ptx(options)


def _explain(options: argparse.Namespace) -> int:
    from pipec.diag.explain import explain, load_catalogue

    text = explain(options.code)
    if text is None:
        from pipec.diag.catalogue.run import UnknownCode

        families = sorted({code[:3] for code in load_catalogue()})
        raise Failure(UnknownCode(asked=options.code, known=", ".join(f"{family}xx" for family in families)))
    print(text, end="")
    return 0


def _print_diagnostics(diagnostics: Sequence[Diagnostic], form: str) -> None:
    from pipec.diag.render import render_json, render_text

    text = render_json(diagnostics) if form == "json" else render_text(diagnostics)
    # A file name need not be text.
    print(text.encode(errors="backslashreplace").decode(), end="", file=sys.stderr)
    if form == "text":
        count = len(diagnostics)
        print(f"\n{count} error{'' if count == 1 else 's'}; `pipec explain CODE` tells more", file=sys.stderr)


assert set(_EMITTED.values()) <= STAGES.keys()

if __name__ == "__main__":
    sys.exit(main())
