"""What the compiler says about a source text: every stage up to the proof. Asked again, it answers from memory."""

from dataclasses import dataclass, field
from functools import cache

from pipec import driver
from pipec.diag.message import Diagnostic
from pipec.driver import compile_source
from pipec.source import Source


@dataclass
class Options:
    arch: str | None = None
    constants: dict[str, object] = field(default_factory=dict)

    @staticmethod
    def of(text: str) -> "Options":
        """From a first line `# options: arch=sm_90a BM=64`."""
        first = text.split("\n", 1)[0]
        if not first.startswith("# options:"):
            return Options()
        pairs = dict(pair.split("=", 1) for pair in first.removeprefix("# options:").split())
        return Options(pairs.pop("arch", None), dict(pairs))


def diagnose_anew(name: str, text: str, options: Options | None = None) -> list[Diagnostic]:
    """For those who watch or change the compiler at work."""
    options = options or Options()
    return list(_said.__wrapped__(name, text, options.arch, tuple(options.constants.items()), "prove")[0])


def diagnose(name: str, text: str, options: Options | None = None, until: str = "prove") -> list[Diagnostic]:
    options = options or Options()
    return list(_said(name, text, options.arch, tuple(options.constants.items()), until)[0])


def outcomes(name: str, text: str, options: Options) -> list[str]:
    """What is known of the protocol of each kernel."""
    return list(_said(name, text, options.arch, tuple(options.constants.items()), "prove")[1])


@cache
def _said(
    name: str, text: str, arch: str | None, constants: tuple[tuple[str, object], ...], until: str
) -> tuple[tuple[Diagnostic, ...], tuple[str, ...]]:
    state = compile_source(Source(name, text), driver.Options(arch, dict(constants)), until)
    return tuple(state.diagnostics), tuple(verdict.outcome for verdict in state.protocol.values())
