"""What the compiler says about a source text: every stage up to the limits."""

from dataclasses import dataclass, field

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


def diagnose(name: str, text: str, options: Options | None = None) -> list[Diagnostic]:
    options = options or Options()
    state = compile_source(Source(name, text), driver.Options(options.arch, options.constants), until="prove")
    return state.diagnostics
