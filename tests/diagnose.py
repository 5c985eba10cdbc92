"""What the compiler says about a source text: every stage up to the checks."""

from dataclasses import dataclass, field

from pipec.check import linear, roles
from pipec.check.facts import collect
from pipec.diag.message import Diagnostic, Sink
from pipec.isa.targets import DEFAULT_TARGET
from pipec.kir.build import build
from pipec.kir.verify import verify
from pipec.sema import analyse
from pipec.source import Source
from pipec.syntax.parse import parse


@dataclass
class Options:
    arch: str = DEFAULT_TARGET
    constants: dict[str, object] = field(default_factory=dict)

    @staticmethod
    def of(text: str) -> "Options":
        """From a first line `# options: arch=sm_90a BM=64`."""
        first = text.split("\n", 1)[0]
        if not first.startswith("# options:"):
            return Options()
        pairs = dict(pair.split("=", 1) for pair in first.removeprefix("# options:").split())
        return Options(pairs.pop("arch", DEFAULT_TARGET), dict(pairs))


def diagnose(name: str, text: str, options: Options | None = None) -> list[Diagnostic]:
    options = options or Options()
    sink = Sink()
    file = parse(Source(name, text), sink)
    if file is None or sink.failed:
        return sink.diagnostics
    for kernel in analyse(file, sink, options.constants):
        ir = build(kernel)
        verify(ir)
        facts = collect(ir)
        linear.check(facts, sink)
        roles.check(facts, sink)
    return sink.diagnostics
