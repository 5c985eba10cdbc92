"""Help that is an edit is pasted: each edit of each case is applied, and the message has to be gone afterwards.

Where something else is said then, the case is listed with what remains: the text had a second mistake, or the edit needs a decision.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from diagnose import Options, diagnose

from pipec.diag.edits import applied
from pipec.diag.explain import load_catalogue
from pipec.diag.message import Diagnostic
from pipec.diag.render import render_json

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*/*.pipe"))

# What a text says after the edit that it did not say before, by case and code of the message that was mended.
REMAINS = {
    ("linear/direct_throttle_fills_nothing", "E0207"): {"E0241"},  # the name that comes nearest asks for a wait
    ("linear/shadowed", "E0315"): {"E0601"},  # the role then takes two stages where one is filled
    ("names/barrier_of_another_stage", "E0230"): {"E0308", "E0507"},  # two loads had each other's barrier
    ("names/wrong_barrier", "E0230"): {"E0501"},
    ("names/producer_has_no_arrive", "E0207"): {"E0221"},
    ("names/producer_method_on_consumer", "E0207"): {"E0508"},
    ("names/of_other_languages", "E0114"): {"E0203"},
    ("resources/too_many_stages", "E0701"): {"E0719"},  # as many stages as a kernel may have are more than its memory holds
    ("roles/peek_of_another_pipeline", "E0433"): {"E0241"},
    ("scaling/sixty_four_rows", "E0785"): {"E0712"},  # `a` needs the rows as well, as the help says
    ("syntax/missing_block", "E0105"): {"E0308"},
    ("syntax/of_c", "E0114"): {"E0114"},  # a second form in the same line
}


def case_id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def counted(diagnostics: list[Diagnostic]) -> Counter:
    return Counter((one.code, one.title) for one in diagnostics)


@pytest.mark.sample(0.3)
@pytest.mark.parametrize("path", CASES, ids=case_id)
def test_each_edit_fixes_its_mistake(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    options = Options.of(text)
    before = diagnose(path.name, text, options)
    for diagnostic in before:
        if not diagnostic.edits:
            continue
        assert diagnostic.help is not None, "an edit says what help says"
        after = counted(diagnose(path.name, applied(text, diagnostic.edits), options))
        same = (diagnostic.code, diagnostic.title)
        assert after[same] < counted(before)[same], diagnostic
        fresh = {code for code, title in after if (code, title) not in counted(before)}
        assert fresh <= REMAINS.get((case_id(path), diagnostic.code), set()), diagnostic


def test_every_kind_of_edit_has_a_case() -> None:
    # A case is compiled only while its golden text promises a code that is still wanted: 80 of them instead of all 600.
    wanted = {code for code, message in load_catalogue().items() if message.edits}
    for path in CASES:
        golden = path.with_suffix(".txt").read_text(encoding="utf-8")
        if any(f"[{code}]" in golden for code in wanted):
            text = path.read_text(encoding="utf-8")
            wanted -= {one.code for one in diagnose(path.name, text, Options.of(text)) if one.edits}
    assert wanted == set()


def test_edits_are_in_the_json_output() -> None:
    text = "kernel a()\n    pass\n"
    (line,) = render_json(diagnose("a.pipe", text)).splitlines()
    (edit,) = json.loads(line)["edits"]
    assert edit == {"file": "a.pipe", "line": 1, "column": 11, "end_line": 1, "end_column": 11, "text": ":"}
