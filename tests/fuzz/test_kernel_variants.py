"""Kernels beside what pipec must say of them (`variants/*.txt`): neighbours of each other that differ in one detail.

A head `=== name expected arch | sizes` stands in front of each. `right`: proved, and at the sizes it computes what its reference says, at
any timing. `assumed`: the same, but the report names what is taken for granted. `wrong`: refused. `open`: right, and may be undecided.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipec.driver import Compilation, Options, compile_source
from pipec.reference.trial import trial_of
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.source import Source

FOLDER = Path(__file__).parent / "variants"
UNDECIDED = {"E0604"}


@dataclass(frozen=True)
class Variant:
    name: str
    expected: str
    arch: str
    sizes: tuple[dict[str, int], ...]
    text: str


def variants() -> Iterator[Variant]:
    for file in sorted(FOLDER.glob("*.txt")):
        for part in file.read_text().split("=== ")[1:]:
            head, _, text = part.partition("\n")
            words, _, sizes = head.partition("|")
            name, expected, arch = words.split()
            rows = [dict(one.split("=") for one in row.replace(" ", "").split(",")) for row in sizes.split(";") if row.strip()]
            yield Variant(name, expected, arch, tuple({key: int(value) for key, value in row.items()} for row in rows), text)


VARIANTS = list(variants())


def test_every_variant_has_a_name_of_its_own() -> None:
    assert len({one.name for one in VARIANTS}) == len(VARIANTS) > 150
    assert {one.expected for one in VARIANTS} == {"right", "assumed", "wrong", "open"}


@pytest.mark.sample(0.3)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: one.name)
def test_diagnostics_match_the_outcome(variant: Variant) -> None:
    state = compile_source(Source("k.pipe", variant.text), Options(variant.arch))
    codes = {one.code for one in state.diagnostics}
    assert "E0001" not in codes
    if variant.expected == "wrong":
        assert state.failed
    elif variant.expected != "open" or not state.failed:
        assert not state.failed, [one.title for one in state.diagnostics]
        assert state.protocol["k"].outcome == "proved"
        assert variant.expected != "assumed" or state.findings["k"].assumed
        _run(variant, state)
    else:
        assert codes <= UNDECIDED


def _run(variant: Variant, state: Compilation) -> None:
    assert state.plans is not None and state.ptx is not None
    for sizes in variant.sizes:
        for timing in ("late", "random"):
            trial = trial_of(state.plans[0], sizes)
            options = LaunchOptions(Simulation(timing=timing, seed=1))
            launch(state.plans[0].interface, state.ptx, trial.arguments, device="sim", options=options)
            judged = trial.judged()
            assert judged and not any(one.wrong for one in judged), (sizes, timing)
