"""`--certificate` and `pipec verify`: what is written is accepted, what is damaged is told, and the compiler is not needed for it."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from faces.kernels import SCALE
from samples import some

from pipec.commands.cli import main
from pipec.driver import Options, compile_source
from pipec.source import Source
from pipec.verify.document import FORMAT, document_of, to_json

FIELD = f'"format":{FORMAT}'

Capture = pytest.CaptureFixture[str]
EXAMPLES = Path(__file__).parents[2] / "examples"
OF_THE_COMPILER = ("syntax", "sema", "kir", "checks", "lower", "ptx", "protocol", "driver", "sim", "runtime")


@cache
def compiled() -> tuple[str, str]:
    """The PTX of a kernel and the file of its certificate."""
    state = compile_source(Source("scale.pipe", SCALE), Options())
    assert state.ptx is not None and state.certificates
    return state.ptx, to_json(document_of(state.ptx, state.certificates.values()))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    ptx, certificate = tmp_path / "scale.ptx", tmp_path / "scale.json"
    ptx.write_text(compiled()[0], encoding="utf-8")
    certificate.write_text(compiled()[1], encoding="utf-8")
    return ptx, certificate


def codes(capsys: Capture, *arguments: object) -> list[str]:
    """What `verify` reports; it must end with status 1 then, and never with a traceback."""
    status = main(["verify", *map(str, arguments), "--message-format", "json"])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    found = [json.loads(line)["code"] for line in said.err.splitlines()]
    assert status == (1 if found else 0)
    return found


@pytest.mark.parametrize("command", ["compile", "check"])
def test_what_is_written_is_accepted(command: str, tmp_path: Path, capsys: Capture) -> None:
    source, ptx, certificate = str(EXAMPLES / "gemm.pipe"), str(tmp_path / "g.ptx"), str(tmp_path / "g.json")
    assert main(["compile", source, "-o", ptx, *(["--certificate", certificate] if command == "compile" else [])]) == 0
    if command == "check":
        assert main(["check", source, "--certificate", certificate]) == 0
    capsys.readouterr()
    assert main(["verify", ptx, certificate]) == 0
    said = capsys.readouterr().out
    assert re.fullmatch(
        r"gemm: no role waits for ever, for all sizes\n  if      the tensor memory [\w ]+ free \(line \d+\)\n", said
    )


def test_assumptions_are_printed(tmp_path: Path, capsys: Capture) -> None:
    ptx, certificate = str(tmp_path / "a.ptx"), str(tmp_path / "a.json")
    assert main(["compile", str(EXAMPLES / "attention_sm90.pipe"), "-o", ptx, "--certificate", certificate]) == 0
    assert main(["verify", ptx, certificate, "--message-format", "json"]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert row["kind"] == "verified" and row["kernel"] == "attention_sm90"
    assert any("setmaxnreg" in one for one in row["assumptions"])


def test_the_compiler_is_not_needed(files: tuple[Path, Path]) -> None:
    """In a process of its own: nothing of the compiler, of the search or of what these need is loaded."""
    code = "import sys; from pipec.commands.cli import main; status = main(sys.argv[1:]); print(*sys.modules); sys.exit(status)"
    run = subprocess.run(
        [sys.executable, "-c", code, "verify", *map(str, files)], capture_output=True, check=False, text=True, timeout=60
    )
    said, loaded = run.stdout.splitlines()
    assert run.returncode == 0 and said.startswith("scale: no role waits for ever")
    parts = {".".join(name.split(".")[:2]) for name in loaded.split()}
    assert "pipec.verify" in parts
    assert not parts & {*(f"pipec.{part}" for part in OF_THE_COMPILER), "llvmlite", "lark", "numpy"}


def test_status_of_wrong_usage(files: tuple[Path, Path]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["verify", str(files[0])])
    assert left.value.code == 2


# ------------------------------------------------------------------------------------------------ what does not belong together


def test_another_text(files: tuple[Path, Path], capsys: Capture) -> None:
    files[0].write_text(compiled()[0] + "// the end\n", encoding="utf-8")
    assert codes(capsys, *files) == ["E1102"]


def test_a_kernel_without_a_certificate(files: tuple[Path, Path], capsys: Capture) -> None:
    data = json.loads(compiled()[1])
    files[1].write_text(json.dumps({**data, "kernels": []}), encoding="utf-8")
    assert codes(capsys, *files) == ["E1104"]


def test_a_certificate_of_a_kernel_that_is_not_there(files: tuple[Path, Path], capsys: Capture) -> None:
    files[1].write_text(compiled()[1].replace('"kernel":"scale"', '"kernel":"other"'), encoding="utf-8")
    assert codes(capsys, *files) == ["E1105"]
    files[1].write_text(compiled()[1], encoding="utf-8")
    assert codes(capsys, *files, "--kernel", "other") == ["E1105"]


def test_an_assumption_that_is_left_out_or_made_up(files: tuple[Path, Path], capsys: Capture) -> None:
    data = json.loads(compiled()[1])
    data["kernels"][0]["assumptions"].append("line 1: it does not rain")
    files[1].write_text(json.dumps(data), encoding="utf-8")
    assert codes(capsys, *files) == ["E1103"]


def test_ptx_that_cannot_be_read(files: tuple[Path, Path], capsys: Capture) -> None:
    """With its own hash, so that it is looked at."""
    text = compiled()[0].replace("bar.sync", "bar.red.popc", 1)
    assert text != compiled()[0]
    data = json.loads(compiled()[1])
    other = json.loads(to_json(document_of(text, ())))
    files[0].write_text(text, encoding="utf-8")
    files[1].write_text(json.dumps({**data, "ptx_sha256": other["ptx_sha256"]}), encoding="utf-8")
    assert codes(capsys, *files) == ["E1106"]


@pytest.mark.parametrize(
    "text", ["", "\0", "// nothing\n", '.visible .entry k()\n{ .pragma "no end; }', "/* .visible .entry k() { ret; }"]
)
def test_a_text_without_a_kernel_that_can_be_found(text: str, files: tuple[Path, Path], capsys: Capture) -> None:
    files[0].write_text(text, encoding="utf-8")
    for proofs in (json.loads(compiled()[1])["kernels"], []):
        found = json.loads(to_json(document_of(text, ())))
        files[1].write_text(json.dumps({**found, "kernels": proofs}), encoding="utf-8")
        assert codes(capsys, *files) == ["E1108"]


@pytest.mark.parametrize("name", ["%other", "_other", "$other", "other$1"])
def test_every_kernel_is_seen_whatever_its_name(name: str, files: tuple[Path, Path], capsys: Capture) -> None:
    """ptxas compiles each of these."""
    text = f"{compiled()[0]}\n.visible .entry {name}()\n.reqntid 32\n{{\nL:\n  bra L;\n}}\n"
    found = json.loads(to_json(document_of(text, ())))
    files[0].write_text(text, encoding="utf-8")
    files[1].write_text(json.dumps({**json.loads(compiled()[1]), "ptx_sha256": found["ptx_sha256"]}), encoding="utf-8")
    assert codes(capsys, *files) == ["E1104"]


def test_a_watchdog_has_no_certificate(tmp_path: Path, capsys: Capture) -> None:
    output = tmp_path / "out.json"
    assert main(["compile", str(EXAMPLES / "gemm.pipe"), "--watchdog", "--certificate", str(output)]) == 1
    assert "error[E1107]" in capsys.readouterr().err and not output.exists()


# --------------------------------------------------------------------------------------------------------- damaged files

Change = Callable[[str], bytes]

DAMAGED: dict[str, tuple[Change, str]] = {
    "empty": (lambda text: b"", "E1101"),
    "cut off": (lambda text: text[: len(text) // 2].encode(), "E1101"),
    "binary": (lambda text: bytes(range(256)) * 4, "E0110"),
    "zeros": (lambda text: bytes(5000), "E1101"),
    "deep lists": (lambda text: b"[" * 200_000, "E1101"),
    "deep objects": (lambda text: b'{"format":' * 200_000, "E1101"),
    "a number of many digits": (lambda text: text.replace(FIELD, '"format":' + "9" * 100_000).encode(), "E1101"),
    "a node beyond 128 bits": (lambda text: text.replace('"node":0', '"node":' + "9" * 60, 1).encode(), "E1101"),
    "a node that is no integer": (lambda text: text.replace('"node":0', '"node":0.0', 1).encode(), "E1101"),
    "a node that is not": (lambda text: text.replace('"node":0', '"node":NaN', 1).encode(), "E1101"),
    "a node that is true": (lambda text: text.replace('"node":0', '"node":false', 1).encode(), "E1101"),
    "a node far away": (lambda text: text.replace('"node":0', '"node":999999', 1).encode(), "E1103"),
    "a node before the first": (lambda text: text.replace('"node":0', '"node":-1', 1).encode(), "E1103"),
    "another format": (lambda text: text.replace(FIELD, f'"format":{FORMAT + 1}').encode(), "E1101"),
    "a format that is true": (lambda text: text.replace(FIELD, '"format":true').encode(), "E1101"),
    "no cases": (lambda text: json.dumps(without_cases(text)).encode(), "E1103"),
    "another schema": (lambda text: b'{"kernels": 3}', "E1101"),
    "a field too many": (lambda text: text.replace(FIELD, FIELD + ',"note":""').encode(), "E1101"),
    "a field twice": (lambda text: text.replace(FIELD, f"{FIELD},{FIELD}").encode(), "E1101"),
    "a list instead of an object": (lambda text: b"[]", "E1101"),
    "a name of another kind": (lambda text: text.replace('"kernel":"scale"', '"kernel":"a b\\n"').encode(), "E1101"),
    "a deep condition": (lambda text: with_fact(text, deep(900)).encode(), "E1101"),
    "a division by zero": (lambda text: with_fact(text, ["ge", [0, [1, ["floor", [1, [1, "x"]], 0]]]]).encode(), "E1101"),
    "a false condition": (lambda text: with_fact(text, ["or"]).encode(), "E1103"),
    "a number of steps": (lambda text: text.replace('"steps":[', '"steps":[' + "0," * 300_000, 1).encode(), "E1103"),
}


def without_cases(text: str) -> object:
    data = json.loads(text)
    data["kernels"][0]["certificate"]["cases"] = []
    return data


def with_fact(text: str, fact: object) -> str:
    data = json.loads(text)
    data["kernels"][0]["certificate"]["cases"][0]["nodes"][0]["facts"].append(fact)
    return json.dumps(data)


def deep(levels: int) -> list[object]:
    made: list[object] = ["ge", [0]]
    for _ in range(levels):
        made = ["and", made]
    return made


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_reported(name: str, files: tuple[Path, Path], capsys: Capture) -> None:
    change, code = DAMAGED[name]
    data = change(compiled()[1])
    assert data != compiled()[1].encode()
    files[1].write_bytes(data)
    assert codes(capsys, *files) == [code]


@pytest.mark.parametrize("which", [0, 1])
def test_files_cut_off_anywhere(which: int, files: tuple[Path, Path], capsys: Capture) -> None:
    whole = compiled()[which]
    for end in range(0, len(whole) - 1, len(whole) // 40):
        files[which].write_text(whole[:end], encoding="utf-8")
        assert codes(capsys, *files) == ["E1102" if which == 0 else "E1101"]


def test_files_that_are_not_there(files: tuple[Path, Path], capsys: Capture) -> None:
    assert codes(capsys, files[0], files[1].with_name("other.json")) == codes(capsys, files[1].parent, files[1]) == ["E0111"]


def test_a_certificate_is_never_written_over_the_source(tmp_path: Path, capsys: Capture) -> None:
    source = tmp_path / "scale.pipe"
    source.write_text(SCALE, encoding="utf-8")
    for command in ("check", "compile"):
        assert main([command, str(source), "--certificate", str(source)]) == 1
    assert capsys.readouterr().err.count("error[E1001]") == 2 and source.read_text(encoding="utf-8") == SCALE


@pytest.mark.parametrize("second", [".", "missing/out.json"])
def test_nothing_is_written_if_the_second_output_cannot_be(second: str, tmp_path: Path, capsys: Capture) -> None:
    source, output = tmp_path / "scale.pipe", tmp_path / "out.ptx"
    source.write_text(SCALE, encoding="utf-8")
    assert main(["compile", str(source), "-o", str(output), "--certificate", str(tmp_path / second)]) == 1
    assert capsys.readouterr().err.startswith("error[E1001]") and not output.exists()


def test_emitting_another_form_writes_the_certificate_too(tmp_path: Path, capsys: Capture) -> None:
    source, output = tmp_path / "scale.pipe", tmp_path / "out.json"
    source.write_text(SCALE, encoding="utf-8")
    assert main(["compile", str(source), "--emit", "ast", "--certificate", str(output)]) == 0
    assert json.loads(output.read_text(encoding="utf-8"))["kernels"] == json.loads(compiled()[1])["kernels"]


def test_every_form_that_is_emitted_is_that_of_a_stage() -> None:
    from pipec.commands.cli import _EMITTED
    from pipec.driver import STAGES

    assert set(_EMITTED.values()) <= STAGES.keys()


# --------------------------------------------------------------------------------------------------------- what is said of it


def test_proved_is_said_of_what_the_checker_confirmed(tmp_path: Path, capsys: Capture) -> None:
    """Nothing else in a report begins with the word, and without a certificate it does not stand there."""
    assert main(["check", str(EXAMPLES / "gemm.pipe")]) == 0
    lines = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:]]
    assert [line for line in lines if line[0] == "proved"] == [["proved", "protocol:"]]
    assert {word for word, _ in lines} == {"checked", "proved"}
    for example in some("proved examples", sorted(EXAMPLES.glob("gemm_sm90*.pipe")), 0.1):
        state = compile_source(Source(example.name, example.read_text(encoding="utf-8")), Options())
        assert {name for name, verdict in state.protocol.items() if verdict.outcome == "proved"} == state.certificates.keys()


def test_explain_says_what_a_proof_rests_on(capsys: Capture) -> None:
    from pipec.verify.network import ASSUMED

    assert main(["explain", "proof"]) == 0
    said = capsys.readouterr().out
    assert all(words in said for words in ASSUMED.values())
    assert all(word in said for word in ("Assumed", "Trusted", "Not covered", '"checked"', '"open"'))
    assert main(["explain"]) == 0
    assert "\nproof  what" in "\n" + capsys.readouterr().out
    document = (EXAMPLES.parent / "docs" / "proof.md").read_text(encoding="utf-8")
    assert all(words in document for words in ASSUMED.values())
