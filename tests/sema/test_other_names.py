"""The names of other languages: none is a name of pipec's own, and what takes their place is one."""

import re

import pytest

from pipec.driver import Options, compile_source
from pipec.isa.dtypes import DTYPES
from pipec.sema.language.functions import FUNCTIONS
from pipec.sema.language.operations import FREE
from pipec.sema.language.other_names import LIBRARIES, MEMBERS, NAMES, library_member, other_name
from pipec.sema.values.names import BUILT_IN
from pipec.source import Source

OWN = {*BUILT_IN, *FREE, *FUNCTIONS, *DTYPES, "row_sum", "row_max", "row_min", "True", "False", "kernel", "role", "fn"}
SOURCE = """
kernel k(x: tensor[f32, M, N]):
    grid(1)
    role work(warps=1):
        {name} = 3
        y = {name} + 1
"""


def test_no_name_of_pipec_is_refused_as_foreign() -> None:
    assert OWN & set(NAMES) == set()
    assert OWN & set(LIBRARIES) == set()


def test_suggested_spellings_exist() -> None:
    edits = {row.edit for row in MEMBERS.values() if row.edit is not None}
    assert edits <= OWN
    words = {word for row in MEMBERS.values() for word in re.findall(r"`(\w+(?:\.\w+)?)\(", row.instead)}
    known = OWN | {name.split("(")[0] for name in FREE} | {"InputTilePipeline", "TilePayload"}
    assert words - known == set()


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"break", "continue", "True", "False"}))
def test_a_program_may_use_the_name_itself(name: str) -> None:
    state = compile_source(Source("t.pipe", SOURCE.format(name=name)), Options(), "analyse")
    assert state.diagnostics == []


def test_libraries() -> None:
    assert (found := library_member("tl.math.exp2")) is not None and found.edit == "exp2"
    assert (found := library_member("cute.arch.whatever")) is not None and found.edit is None
    assert library_member("T.whatever") is None
    assert library_member("ring.produce") is None
    assert (found := other_name("float16")) is not None and found.edit == "f16"
    assert other_name("anything") is None
