"""Some of the growing programs at a moderate size; `make fuzz` draws from all of them up to 100 KB."""

import pytest
from families import FAMILIES
from fuzz_bounds import tried

_SAMPLE = ("helpers", "nested calls", "tiles doubled", "scalars in a cluster", "elif as a tree", "unrolled and nested",
           "nested different loops", "call tree", "PTX labels", "PTX grid")  # fmt: skip


@pytest.mark.sample(0.2)
@pytest.mark.parametrize("name", _SAMPLE)
def test_growing_inputs_get_an_answer(name: str) -> None:
    family = next(family for family in FAMILIES if family.name == name)
    if name == "PTX grid":
        family = type(family)(family.name, family.make, family.command, (*family.after, "--steps", "20000"), family.suffix)
    wrong = tried(family, family.largest(5_000))
    assert wrong is None, wrong


def test_a_thousand_branches_are_shown_as_a_tree() -> None:
    from pipec.driver import compile_source
    from pipec.source import Source
    from pipec.syntax.text import file_text

    family = next(family for family in FAMILIES if family.name == "elif as a tree")
    state = compile_source(Source("elif.pipe", family.make(1000)), until="parse")
    assert state.file is not None, state.diagnostics
    assert file_text(state.file).count("If\n") >= 1000
