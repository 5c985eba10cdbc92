"""The command line's options with their value types, so that commands get values and never text."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipec.budgets import BUDGETS
from pipec.isa.targets import DEFAULT_TARGET, TARGETS
from pipec.watchdog import DEFAULT_SECONDS, MOST_SECONDS, seconds_of

_DIGITS = 10  # of $COLUMNS: Python refuses to read numbers of thousands of digits


class _Formatter(argparse.HelpFormatter):
    """argparse creates one for each option, and asks shutil for the terminal's width, whose import loads two compressors."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """Of the terminal: $COLUMNS, or what the system says, else 80."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and len(told) < _DIGITS and int(told):
        return int(told)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):  # no terminal
        return 80


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Formatter, **options)


Command = Callable[[argparse.Namespace], int]

# Options for calling a kernel of another compiler, by the name of their value.
CALL_OPTIONS = {
    "arguments": "arg",
    **{name: name for name in ("save", "grid", "block", "cluster", "shared", "cooperative", "programmatic")},
}
_WATCHDOG = "--watchdog"
FORMS = ("ast", "kir", "llvm", "ptx", "cubin")  # of `--emit`
LIBRARY = "library:"  # prefix of a FILE that is a kernel of pipec.library
TIMINGS = ("order", "late", "random", "explore")
# As pipec.sim has them:
CHECKS = (
    "race", "proxy", "fence", "uninitialised", "bytes", "leak", "lanes", "grid", "peer", "scope", "stale", "warpgroup",
    "init", "split", "commit", "exit", "phase", "layout", "linear", "steps", "unread", "lost",
)  # fmt: skip
SEVERITIES = ("error", "warn", "off")
MOST_DIGITS = 18  # of an integer; all of them fit 64 bits
_FASTEST = 10  # GHz
_LONGEST_NAME = 100


def with_watchdog(words: Sequence[str]) -> list[str]:
    """Plain `--watchdog` with the time that it stands for, and `--watchdog 2` as one word. (argparse would take the file as an optional
    value.)"""
    found: list[str] = []
    for word in words:
        if found and found[-1] == _WATCHDOG:
            bare = seconds_of(f"watchdog={word}") is None
            found[-1:] = [f"{_WATCHDOG}={DEFAULT_SECONDS:g}", word] if bare else [f"{_WATCHDOG}={word}"]
        else:
            found.append(word)
    if found and found[-1] == _WATCHDOG:
        found[-1] = f"{_WATCHDOG}={DEFAULT_SECONDS:g}"
    return found


def parser_of(commands: Mapping[str, Command], words: Sequence[str]) -> _Parser:
    """Of these words. `commands`: the functions to run, by name. A command that comes first is the only one that is listed, and only one
    that is among the words gets its options: those of all take a tenth of a compilation."""
    parser = _Parser(prog="pipec", description="Compiles, checks, simulates and runs pipec kernels.")
    parser.add_argument(
        "--version", action="store_const", dest="command", const=commands["version"], help="print versions and exit"
    )
    listed = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name in words[:1] if words and words[0] in _COMMANDS else _COMMANDS:
        does, parents, add_own = _COMMANDS[name]
        if name not in words:
            listed.add_parser(name, help=does, add_help=False)
            continue
        command = listed.add_parser(name, parents=[_shared(), *(make() for make in parents)], help=does)
        add_own(command)
        command.set_defaults(command=commands[name])
    *others, last = _COMMANDS
    parser.set_defaults(
        command=lambda _: parser.error(f"a command is needed: {', '.join(others)} or {last}"),
        message_format="text",
        max_seconds=None,
        max_memory=None,
    )
    return parser


# ----------------------------------------------------------------------------------------------- what one command has


def _add_compile(parser: _Parser) -> None:
    parser.add_argument("-o", dest="output", metavar="OUT", help="output file (default: standard output)")
    _add_timestamps(parser, "a tensor after the other arguments")
    parser.add_argument("--emit", choices=FORMS, default="ptx", help="output form (default %(default)s)")
    _add_certificate(parser)


def _add_timestamps(parser: _Parser, where: str) -> None:
    parser.add_argument(
        "--timestamps",
        action="store_true",
        help=f"record clock values at waits and stores, in {where} (off by default: it costs time)",
    )


def _add_certificate(parser: _Parser) -> None:
    parser.add_argument("--certificate", metavar="JSON", help="write certificates of freedom from deadlock, for `pipec verify`")


def _add_verify(parser: _Parser) -> None:
    parser.add_argument("file", metavar="PTX", help="a PTX file; `-`: standard input")
    parser.add_argument("certificate", metavar="JSON", help="its certificates, from `--certificate`")
    parser.add_argument("--kernel", metavar="NAME", help="only this kernel of the file")


def _add_run(parser: _Parser) -> None:
    parser.add_argument("--device", default="auto", choices=("auto", "cuda", "sim"), help="where to run (default %(default)s)")
    _add_timestamps(parser, "the data that --timeline draws, also on a GPU")
    _add_simulation(parser)


def _add_sim(parser: _Parser) -> None:
    parser.add_argument("file", metavar="PTX", help="a PTX file, of pipec or of another compiler; `-`: standard input")
    parser.add_argument("--kernel", metavar="NAME", help="the entry to run (default: the only one)")
    _add_launch(parser)
    _add_simulation(parser)


def _add_tune(parser: _Parser) -> None:
    parser.add_argument(
        "--device",
        default="auto",
        choices=("auto", "cuda", "model"),
        help="measure on a GPU, or rank by the model (default %(default)s: measure where that is possible)",
    )
    parser.add_argument(
        "-o", dest="output", metavar="TABLE", help="the table to add measurements to, FILE.tiles beside the kernel"
    )


def _add_predict(parser: _Parser) -> None:
    parser.add_argument("--device", choices=("b200", "h200"), help="the GPU (default: the one that runs the kernel's target)")
    parser.add_argument(
        "--clock", type=_gigahertz, metavar="GHZ", help="clock of the multiprocessors under load (default: the device's)"
    )
    parser.add_argument(
        "--launch",
        metavar="FILE.json",
        help="how a kernel in PTX is launched, as for `pipec sim`: some of its blocks are executed",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default %(default)s)")
    parser.add_argument(
        "--timeline", metavar="FILE", help="write a timeline of the roles: a page (.html), or JSON for Chrome or Perfetto"
    )


def _add_program(parser: _Parser) -> None:
    parser.add_argument(
        "--arch", default=DEFAULT_TARGET, choices=tuple(TARGETS), help="what kernels are compiled for (default %(default)s)"
    )
    _add_simulation(parser, timeline=False)
    parser.add_argument("file", metavar="FILE.py", help="the program")
    parser.add_argument("program_arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="the program's arguments")


def _add_explain(parser: _Parser) -> None:
    parser.add_argument(
        "code",
        metavar="CODE",
        nargs="?",
        help="for example E0303, a check of the simulator (`race`), or `proof`; without it: all",
    )


# ---------------------------------------------------------------------------------------------- what several have


def _shared() -> _Parser:
    parser = _Parser(add_help=False)
    parser.add_argument(
        "--message-format", choices=("text", "json"), default="text", help="how diagnostics and results are printed"
    )
    spent = f"limit of processor time (default {BUDGETS['processor time'].limit})"
    parser.add_argument("--max-seconds", type=_positive, metavar="N", help=spent)
    parser.add_argument(
        "--max-memory", type=_positive, metavar="MB", help=f"limit of memory in megabytes (default {BUDGETS['memory'].limit})"
    )
    return parser


def _source(targets: bool = False) -> _Parser:
    """`targets`: accepts several targets."""
    parser = _Parser(add_help=False)
    parser.add_argument("file", metavar="FILE", help="a .pipe source; `-`: standard input")
    default = f"(default: the docstring's `arch:` line, or {DEFAULT_TARGET})"
    if targets:
        parser.add_argument(
            "--target",
            "--arch",
            dest="targets",
            action="append",
            choices=tuple(TARGETS),
            default=[],
            help=f"may be repeated {default}",
        )
    else:
        parser.add_argument("--arch", choices=tuple(TARGETS), help=f"the target {default}")
    parser.add_argument(
        "-D",
        dest="constants",
        metavar="NAME=VALUE",
        type=_assignment,
        action=_Once,
        default=[],
        help="set a compile-time parameter; may be repeated",
    )
    parser.add_argument("--kernel", metavar="NAME", help="only this kernel of the file")
    parser.add_argument(
        "--allow-undecided",
        action="store_true",
        help="accept kernels for which neither a proof of freedom from deadlock nor a deadlock is found",
    )
    return parser


def _source_of_targets() -> _Parser:
    return _source(targets=True)


def _watched() -> _Parser:
    parser = _Parser(add_help=False)
    parser.add_argument(
        _WATCHDOG,
        metavar="SECONDS",
        type=_seconds,
        help="bound each wait on a barrier and report a hang (`--watchdog` alone: 1 second)",
    )
    return parser


def _shaped() -> _Parser:
    parser = _Parser(add_help=False)
    parser.add_argument(
        "--shape",
        dest="shapes",
        metavar="NAME=SIZE",
        type=_assignment,
        action=_Once,
        nargs="+",
        default=[],
        help="sizes of dimensions that a launch binds, values of scalars",
    )
    return parser


def _seeded(what: str) -> Callable[[], _Parser]:
    """The option for the seed of this."""

    def add() -> _Parser:
        parser = _Parser(add_help=False)
        parser.add_argument("--seed", type=_whole, default=0, help=f"seed of {what}, 0 or more (default %(default)s)")
        return parser

    return add


_SEEDED = _seeded("random inputs and of --timing random")


def _add_bundle(parser: _Parser) -> None:
    parser.add_argument("-o", dest="output", metavar="DIR", required=True, help="the folder to write, created if missing")
    parser.add_argument("--name", type=_name, metavar="NAME", help="name of the C files and functions (default: the file's)")
    parser.add_argument(
        "--shape",
        dest="shapes",
        metavar="NAME=SIZE,...",
        type=_assignment,
        action=_Once,
        nargs="+",
        default=[],
        help="sizes to choose tiles for, in all combinations (default: a few of each dimension)",
    )
    parser.add_argument(
        "--tiles",
        type=_positive,
        metavar="N",
        default=6,
        help="maximum number of variants per kernel and target (default %(default)s)",
    )


def _add_launch(parser: _Parser) -> None:
    """Options for calling a kernel without call information."""
    group = parser.add_argument_group("calling a kernel of another compiler (docs/simulator.md)")
    group.add_argument(
        "--launch", metavar="FILE.json", help="a file that describes the whole launch, instead of the following options"
    )
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
    group.add_argument("--shared", type=_whole, default=0, metavar="BYTES", help="dynamic shared memory (default %(default)s)")
    group.add_argument(
        "--cooperative", action="store_true", help="cooperative launch: the whole grid starts together, as grid.sync() requires"
    )
    group.add_argument(
        "--programmatic", action="store_true", help="programmatic launch: the preceding grids may still run and write any array"
    )
    group.add_argument(
        "--save",
        metavar="NAME=FILE",
        type=_assignment,
        action=_Once,
        default=[],
        help="write this array to a .npy file after the run; may be repeated",
    )


def _add_simulation(parser: _Parser, *, timeline: bool = True) -> None:
    parser.add_argument(
        "--timing",
        choices=TIMINGS,
        default="order",
        help="when asynchronous operations complete in the simulator (default %(default)s)",
    )
    parser.add_argument(
        "--steps",
        type=_positive,
        default=BUDGETS["simulated steps"].limit,
        metavar="N",
        help="warp instructions after which the simulator gives up (default %(default)s)",
    )
    parser.add_argument(
        "--check",
        dest="checks",
        metavar="NAME=error|warn|off",
        type=_severity,
        action=_Once,
        default=[],
        help=f"severity of a kind of simulator finding: {', '.join(CHECKS)}; may be repeated",
    )
    parser.add_argument(
        "--rules",
        choices=("documents", "practice"),
        help="what a kernel may rely on in the simulator: PTX's guarantees, or the practice of shipped compilers (default: documents for "
        "pipec's kernels, practice for others; docs/fidelity.md lists the differences)",
    )
    if timeline:
        parser.add_argument(
            "--timeline", metavar="FILE", help="write a timeline of the run: a page (.html), or JSON for Chrome or Perfetto"
        )


class _Once(argparse.Action):
    """Collects NAME=VALUE; a name with two different values is an error that taking the last one would hide."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        given = values if isinstance(values, list) else [values]
        known: dict[str, str] = dict(getattr(namespace, self.dest))
        for name, value in given:
            if known.setdefault(name, value) != value:
                raise argparse.ArgumentError(self, f"{name} is given twice, as {_short(known[name])} and as {_short(value)}")
        setattr(namespace, self.dest, list(known.items()))


def _short(text: str) -> str:
    """The given text, truncated for messages."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _severity(text: str) -> tuple[str, str]:
    name, severity = _assignment(text)
    if name not in CHECKS or severity not in SEVERITIES:
        raise argparse.ArgumentTypeError(f"{_short(text)} is none of {', '.join(CHECKS)}, = and one of {', '.join(SEVERITIES)}")
    return name, severity


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not value:
        raise argparse.ArgumentTypeError(f"{_short(text)} is not NAME=VALUE")
    return name, value


def _name(text: str) -> str:
    if not (text.isascii() and text.isidentifier() and len(text) <= _LONGEST_NAME):
        raise argparse.ArgumentTypeError(f"{_short(text)} is no name in C of at most {_LONGEST_NAME} letters")
    return text


def _seconds(text: str) -> float:
    seconds = seconds_of(f"watchdog={text}")
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{_short(text)} is no number of seconds, more than 0 and at most {MOST_SECONDS}")
    return seconds


def _whole(text: str) -> int:
    """ASCII digits only: int() also accepts those of other scripts, and underscores."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        raise argparse.ArgumentTypeError(f"{_short(text)} is not a whole number of at most {MOST_DIGITS} digits, 0 or more")
    return int(text)


def _positive(text: str) -> int:
    number = _whole(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{_short(text)} is not a number above 0")
    return number


def _gigahertz(text: str) -> float:
    whole, _, part = text.partition(".")
    if not (text.isascii() and (whole + part).isdecimal() and len(text) <= MOST_DIGITS and 0 < float(text) <= _FASTEST):
        raise argparse.ArgumentTypeError(f"{_short(text)} is no clock in GHz, above 0 and at most {_FASTEST}")
    return float(text)


def _extents(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3:
        raise argparse.ArgumentTypeError(f"{_short(text)} is not X, X,Y or X,Y,Z")
    return tuple(_positive(part) for part in parts)


# The description of a command, the options that it shares with others, and its own; in the order of `pipec --help`.
_COMMANDS: dict[str, tuple[str, tuple[Callable[[], _Parser], ...], Callable[[_Parser], None]]] = {
    "compile": ("compile a source to PTX (or another form)", (_source, _watched), _add_compile),
    "check": ("run all checks without output files; print what was proved", (_source,), _add_certificate),
    "verify": ("check certificates against a PTX file, without the compiler", (), _add_verify),
    "run": ("compile, run with random inputs, compare with NumPy", (_source, _watched, _shaped, _SEEDED), _add_run),
    "sim": ("run a PTX file in the simulator", (_shaped, _SEEDED), _add_sim),
    "tune": (
        "find the fastest of the tiles that a kernel lists; FILE may be library:gemm",
        (_source, _shaped, _seeded("random inputs and of the order of measurements")),
        _add_tune,
    ),
    "predict": (
        "predict the time of a kernel and its bottleneck, without a GPU; FILE may be library:gemm",
        (_source, _shaped),
        _add_predict,
    ),
    "build": ("compile ahead of time, for C and for Python; FILE may be library:gemm", (_source_of_targets,), _add_bundle),
    "triton": (
        "run a Python program with its Triton or Gluon kernels in the simulator",
        (_seeded("--timing random"),),
        _add_program,
    ),
    "cute": ("run a Python program with its CuTe DSL kernels in the simulator", (_seeded("--timing random"),), _add_program),
    "explain": ("explain a diagnostic code, or the meaning of a proof", (), _add_explain),
}
