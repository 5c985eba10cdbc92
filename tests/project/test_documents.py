"""What README.md, CONTRIBUTING.md and docs/ name exists, their commands are commands, and what they quote is what pipec prints."""

import re
import shlex
from pathlib import Path

import pytest

from pipec.api.report import report_of
from pipec.commands.cli import _COMMANDS
from pipec.commands.options import parser_of
from pipec.diag.render import render_text
from pipec.driver import Options, compile_source
from pipec.source import Source

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([\w./-]+\.\w+)(?:#[^)]*)?\)")
# A file of the repository in backticks: `pipec/sema/language/functions.py`, `tests/errors`, `lower/synchronisation/mma_waits.py`.
NAMED = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9.]*|[a-z_]+\.py)`")
# Documents of prose; proof.md is set as its authors broke it, and the reference cites formulas.
PROSE = [path for path in DOCUMENTS if path.parent.name != "reference" and path.name not in ("errors.md", "proof.md")]
WIDEST = 140  # of prose; tables, code and links are as wide as they must be
GEMM = (ROOT / "examples" / "gemm.pipe").read_text(encoding="utf-8")


def commands(text: str) -> list[str]:
    """The `pipec` commands of indented code, joined where a line goes on, without their remarks."""
    joined = re.sub(r"\\\n\s*", "", text)
    return [line.split("  #")[0].strip() for line in joined.splitlines() if line.startswith("    pipec ") and ": " not in line]


def prose(text: str) -> list[str]:
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"<!-- (?!figures).*? -->.*?<!-- /.*? -->", "", text, flags=re.DOTALL)
    text = re.sub(r"<!-- figures.*?<!-- end of figures -->", "", text, flags=re.DOTALL)
    return [line for line in text.splitlines() if not line.startswith(("|", "    ", "#"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert [link for link in LINK.findall(text) if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_the_files_that_the_recipes_name_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    places = (ROOT, ROOT / "pipec", *(path for path in (ROOT / "pipec").iterdir() if path.is_dir()), ROOT / "tests/fuzz")
    named = set(NAMED.findall(text))
    assert len(named) > 20, "the pattern finds no names"
    assert sorted(name for name in named if not any((place / name).exists() for place in places)) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_are_commands(document: Path) -> None:
    for command in commands(document.read_text(encoding="utf-8")):
        shortened = command.replace("--shape ...", "--shape M=64")
        words = [word if word != "--watchdog" else "--watchdog=1" for word in shlex.split(shortened)[1:]]
        parser_of(_COMMANDS, words).parse_args(words)


def test_the_readme_lists_all_commands() -> None:
    listed = re.findall(r"^\| `pipec (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted([*listed, "version"]) == sorted(_COMMANDS)  # `pipec --version`


def test_there_are_commands_to_try() -> None:
    """The test above would pass if it found none, or if the parser took anything."""
    found = [command for document in DOCUMENTS for command in commands(document.read_text(encoding="utf-8"))]
    assert len(found) > 10
    words = ["compile", "x.pipe", "--no-such-option"]
    with pytest.raises(SystemExit):
        parser_of(_COMMANDS, words).parse_args(words)


@pytest.mark.parametrize("document", PROSE, ids=lambda path: path.name)
def test_prose_is_not_wide(document: Path) -> None:
    assert [line for line in prose(document.read_text(encoding="utf-8")) if len(line) > WIDEST] == []


def test_the_readme_shows_what_a_forgotten_release_gives() -> None:
    state = compile_source(Source("gemm.pipe", GEMM.replace("            s.release()\n", "\n")), Options())
    (shown,) = (block for block in quoted() if block.startswith("error[E0301]"))
    assert render_text(state.diagnostics).startswith(shown)


def test_the_readme_shows_how_one_iteration_too_many_hangs() -> None:
    head, mma, tail = re.split(r"(role mma.*?)(?=\n    role epi)", GEMM, flags=re.DOTALL)
    longer = mma.replace("range(ceildiv(K, BK))", "range(ceildiv(K, BK) + 1)")
    state = compile_source(Source("gemm.pipe", head + longer + tail), Options())
    (shown,) = (block for block in quoted() if block.startswith("error[E0601]"))
    first, _, note = (part.strip() for part in re.split(r"\n(\.\.\.)\n", shown))
    whole = " ".join(render_text(state.diagnostics).split())
    assert whole.startswith(first)
    assert " ".join(note.removesuffix("...").split()) in whole


@pytest.mark.parametrize("document", ["README.md", "docs/proof.md"])
def test_the_line_of_the_proof_is_what_check_prints(document: str) -> None:
    state = compile_source(Source("gemm.pipe", GEMM), Options())
    assert state.plans is not None
    proofs = report_of(state.plans[0], state.protocol["gemm"]).proofs
    (line,) = (proof for proof in proofs if proof.startswith("protocol:"))
    assert f"proved {line} " in " ".join((ROOT / document).read_text(encoding="utf-8").split())


def quoted() -> list[str]:
    """The blocks of indented code of the README, without their indentation."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", text, flags=re.MULTILINE)
    return ["\n".join(line[4:] for line in block.strip("\n").splitlines()).strip() for block in blocks]
