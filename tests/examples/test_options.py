"""Examples compiled with a watchdog and with time stamps: proved as without, and under the same conditions of its launches.

The proof is about the text without either, whose kernels have fewer parameters.
"""

import pytest
from examples.catalogue import EXAMPLES, Case, proved

from pipec.driver import Options, compile_source
from pipec.source import Source

OPTIONS = {"watchdog": Options(watchdog=2.0), "timestamps": Options(timestamps=True)}
NAMES = [path.stem for path in sorted(EXAMPLES.glob("*.pipe"))]


@pytest.mark.sample(0.3, of="option")
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", NAMES)
def test_it_is_proved_as_without(name: str, option: str) -> None:
    path = EXAMPLES / f"{name}.pipe"
    plain = proved(Case(path, (), None))
    state = compile_source(Source(f"examples/{path.name}", path.read_text(encoding="utf-8")), OPTIONS[option])
    assert [diagnostic.title for diagnostic in state.diagnostics] == []
    assert {kernel: found.outcome for kernel, found in state.protocol.items()} == dict.fromkeys(plain.protocol, "proved")
    assert state.plans is not None and plain.plans is not None and state.ptx is not None
    for mine, theirs in zip(state.plans, plain.plans, strict=True):
        assert mine.interface.conditions == theirs.interface.conditions
        assert len(mine.interface.parameters) > len(theirs.interface.parameters)
