"""E00xx: faults of the compiler itself, and inputs beyond its limits."""

import sys

from pipec.budgets import BudgetEnded
from pipec.diag.message import Message, primary
from pipec.source import Span


class InternalError(Message):
    """A bug in pipec, not in the program: a stage of the compiler failed on input that it should have handled or refused.

    Nothing was written. Please report it with the source; other tile sizes may avoid it in the meantime.
    """

    code = "E0001"
    title = "internal error in stage `{stage}`: {error}"
    note = "this is a bug in pipec, not in the program; set PIPEC_DEBUG=1 to see where it happened"
    stage: str
    error: str


class TooComplex(Message):
    """The program nests expressions or blocks deeper than the compiler can follow. No kernel needs such depth: name the parts of
    a long expression, or write a loop."""

    code = "E0002"
    title = "this program nests too deeply to be compiled"
    labels = (primary("at", "somewhere in this file"),)
    at: Span | None


class UnknownTarget(Message):
    """`--arch` names one of the targets that pipec generates code for."""

    code = "E0003"
    title = "there is no target `{name}`"
    note = "known targets: {known}"
    name: str
    known: str


class BudgetSpent(Message):
    """Every pass of pipec has a budget, so that each input gets an answer soon, and none exhausts the machine; docs/limits.md lists them
    all. No reasonable kernel comes near one, so the program probably does something that was not meant: a loop that is unrolled a
    million times, helpers that double each other, a grid far beyond the GPU's.
    """

    code = "E0004"
    title = "the budget `{name}` is exhausted: more than {limit} {unit}"
    labels = (primary("at", "exhausted here"),)
    note = "it protects {protects}"
    help = "{advice}"
    name: str
    limit: str
    unit: str
    protects: str
    advice: str
    at: Span | None


class NotInstalled(Message):
    """Python cannot import a package that pipec is built on: this installation is not complete, whatever the program. Packages that only
    some commands need (for a GPU, for assembling) have messages of their own.
    """

    code = "E0005"
    title = "the package `{package}` cannot be imported: {error}"
    note = "pipec depends on it, and Python ({python}) does not find it or cannot load it; nothing is known of the program"
    help = "`{python} -m pip install --force-reinstall {package}` installs it anew"
    package: str
    error: str
    python: str


def fault(stage: str, error: Exception) -> InternalError | NotInstalled:
    """The message for an exception that escaped from `stage`."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    if package and package not in ("pipec", "runtime"):
        return NotInstalled(package=package, error=str(error), python=sys.executable)
    return InternalError(stage=stage, error=f"{type(error).__name__}: {error}")


def budget_spent(ended: BudgetEnded) -> BudgetSpent:
    """The message for an exhausted budget."""
    row = ended.budget
    at = ended.at if isinstance(ended.at, Span) else None
    return BudgetSpent(name=row.name, limit=f"{row.limit:,}", unit=row.unit, protects=row.protects, advice=row.advice, at=at)
