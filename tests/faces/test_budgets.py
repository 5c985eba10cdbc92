"""Every budget ends with its diagnostic, soon and in bounded memory: each command runs in a process of its own, under limits."""

import math
import resource
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from pipec import budgets
from pipec.budgets import BUDGETS, BudgetEnded
from pipec.diag.explain import load_catalogue
from pipec.ptx.process import run_within_budgets
from pipec.record import replace

_ROOT = Path(__file__).parents[2]
_PTX = ".version 8.7\n.target sm_100a\n.address_size 64\n"
_ENTRY = ".visible .entry k() .reqntid 32,1,1\n{\n.reg .b32 %r<9>;\n"
_ROLE = "kernel k(n: i32, b: tensor[f32, M, N]):\n    grid(1)\n    role r(warps=1):\n"


class Ran(NamedTuple):
    status: int
    said: str
    seconds: float
    megabytes: float


def run(folder: Path, name: str, text: str, *words: str, seconds: int = 40) -> Ran:
    """`pipec WORDS FILE`, killed after so many seconds of processor time."""
    file = folder / name
    file.write_text(text)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pipec", words[0], str(file), *words[1:]]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=_ROOT) as process:
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (seconds, seconds))
        _, said = process.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ran(process.returncode, said, used, after.ru_maxrss / 1e3)


def test_every_row_has_a_diagnostic_and_advice() -> None:
    codes = load_catalogue()
    for row in BUDGETS.values():
        assert row.code in codes and row.limit > 0 and row.advice and row.protects, row


# Budgets whose limits a text reaches at once: what the file is called, the text, the words of the command.
ENDED = {
    "line": ("a.pipe", "#" * 20_001, ("check",)),
    "word": ("a.pipe", _ROLE + "        " + "x" * 1100 + " = n\n", ("check",)),
    "brackets": ("a.pipe", _ROLE + "        x = " + "(" * 61 + "n" + ")" * 61, ("check",)),
    "indentation": ("a.pipe", _ROLE + "".join(" " * 8 * (i + 1) + f"for i{i} in range(n):\n" for i in range(31)), ("check",)),
    "operations": ("a.pipe", _ROLE + "        x = n\n" + "        x = x + n\n" * 9000, ("check",)),
    "tuned combinations": (
        "a.pipe",
        "kernel k[A: int = 1, B: int = 1](n: i32):\n"
        + "    tune A in ({0}), B in ({0})\n    grid(1)\n    role r(warps=1):\n        pass\n".format(
            ", ".join(map(str, range(30)))
        ),
        ("check",),
    ),
    "file operations": (
        "a.pipe",
        "fn f(n):\n    x = n\n"
        + "    x = x + n\n" * 1000
        + "".join(_ROLE.replace("kernel k", f"kernel k{i}") + "        f(n)\n" * 4 for i in range(10)),
        ("check",),
    ),
    "machine code": (
        "a.pipe",
        _ROLE
        + "        t = registers(load(b[0, 0], 32, 128))\n"
        + "        t = t - row_max(t)\n" * 700
        + "        store.direct(b[0, 0], t)\n",
        ("compile",),
    ),
    "loops": ("a.pipe", _ROLE + "        for i in range(n):\n            x = i\n" * 301, ("compile",)),
    "inlined instructions": (
        "a.ptx",
        f"{_PTX}.func f0() {{ ret; }}\n"
        + "".join(f".func f{i}() {{ call f{i - 1},(); call f{i - 1},(); ret; }}\n" for i in range(1, 30))
        + f"{_ENTRY}call f29,();\nret;\n}}\n",
        ("sim", "--grid", "1"),
    ),
    "simulated steps": (
        "a.ptx",
        f"{_PTX}{_ENTRY}L:\nadd.u32 %r1, %r1, 1;\nbra L;\n}}\n",
        ("sim", "--grid", "1", "--steps", "2000"),
    ),
    "processor time": (
        "a.ptx",
        f"{_PTX}{_ENTRY}L:\nadd.u32 %r1, %r1, 1;\nbra L;\n}}\n",
        ("sim", "--grid", "1", "--steps", "1000000000000", "--max-seconds", "1"),
    ),
    "memory": (
        "a.pipe",
        _ROLE + "        store.direct(b[0, 0], fill(1.0, f32, 512, 512) * 2.0)\n" * 20,
        ("compile", "--max-memory", "40"),
    ),
}
APART = {"proof steps", "all proof steps", "file proof steps", "protocol steps", "assembly"}  # tested below


@pytest.mark.parametrize("name", ENDED)
def test_a_budget_ends(name: str, tmp_path: Path) -> None:
    file, text, words = ENDED[name]
    assert len(text) <= 1_000_000
    ran = run(tmp_path, file, text, *words)
    assert ran.status == 1 and f"error[{BUDGETS[name].code}]" in ran.said, ran
    if BUDGETS[name].code == "E0004":
        assert f"the budget `{name}` is exhausted" in ran.said and "= help: " in ran.said, ran.said
    assert "Traceback" not in ran.said and ran.megabytes < 1000, ran


def test_every_row_has_a_test() -> None:
    assert set(ENDED) | APART == set(BUDGETS)


def test_a_grid_of_all_blocks_ends(tmp_path: Path) -> None:
    ran = run(tmp_path, "a.ptx", f"{_PTX}{_ENTRY}ret;\n}}\n", "sim", "--grid", "2147483647", "--steps", "20000")
    assert ran.status == 1 and "error[E1015]" in ran.said, ran


def test_the_assembler_has_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(budgets.BUDGETS, "assembly", replace(BUDGETS["assembly"], limit=1))
    with pytest.raises(BudgetEnded, match="assembly"):
        run_within_budgets([sys.executable, "-c", "while True: pass"], timeout=60)


def test_the_protocol_check_has_a_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its end is no refusal of its own: the question stays open, which is E0604."""
    from pipec.driver import compile_source
    from pipec.source import Source

    head = "kernel k(n: i32):\n    grid(1)\n    p = ProducerConsumerPipeline(stages=4)\n"
    filled = "    role a(warps=1) produces p:\n        for i in range(n):\n            p.producer_signal_and_step()\n"
    emptied = "    role b(warps=1) consumes p:\n        for i in range(n):\n            p.consumer_signal_and_step()\n"
    source = Source("a.pipe", head + filled + emptied)
    assert compile_source(source).protocol["k"].outcome == "proved"
    for name in ("proof steps", "protocol steps"):
        monkeypatch.setitem(budgets.BUDGETS, name, replace(BUDGETS[name], limit=5))
    assert [diagnostic.code for diagnostic in compile_source(source).diagnostics] == ["E0604"]


def test_the_proofs_of_all_readings_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is proved late is not where the first readings have taken all steps, but it is where they have left some."""
    from pipec.driver import Options, compile_source
    from pipec.source import Source

    kernel = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, K]):
    grid(min(ceildiv(M, 64) * ceildiv(N, 64), 132))
    across = ceildiv(N, 64)
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
        for t in range(block.x, ceildiv(M, 64) * across, grid.x):
            for k in range(min(ceildiv(K, 16), t // across + 1)):
                p.producer_signal_and_step()
    role take(warps=1) consumes p:
        for t in range(block.x, ceildiv(M, 64) * across, grid.x):
            n = min(ceildiv(K, 16), t // across + 1)
            for k in range(0, n - 1, 2):
                p.consumer_signal_and_step()
                p.consumer_signal_and_step()
            if n % 2 != 0:
                p.consumer_signal_and_step()
"""
    source = Source("a.pipe", kernel)
    assert not compile_source(source, Options("sm_90a")).failed
    monkeypatch.setitem(budgets.BUDGETS, "all proof steps", replace(BUDGETS["all proof steps"], limit=0))
    monkeypatch.setattr("pipec.protocol.judge._LEAST", 5)
    assert [one.code for one in compile_source(source, Options("sm_90a")).diagnostics] == ["E0604"]


def test_the_proofs_of_a_file_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel has one of its own, but a file may have many."""
    from pipec.driver import Options, compile_source
    from pipec.source import Source

    kernel = _ROLE.replace("kernel k", "kernel k{0}") + "        x = n\n"
    source = Source("a.pipe", "".join(kernel.format(number) for number in range(3)))
    monkeypatch.setitem(budgets.BUDGETS, "file proof steps", replace(BUDGETS["file proof steps"], limit=1))
    (ended,) = compile_source(source).diagnostics
    assert ended.code == "E0004" and "file proof steps" in ended.title
    assert not compile_source(source, Options(kernel="k1")).failed


def test_the_reader_and_the_checker_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of their own, as they know nothing of the table."""
    from pipec.driver import compile_source
    from pipec.source import Source
    from pipec.verify.checker import check as checker
    from pipec.verify.checker.configuration import Refused
    from pipec.verify.inequalities import allowed
    from pipec.verify.network import Unreadable
    from pipec.verify.reader.read import read
    from pipec.verify.reader.values import surroundings

    path = _ROOT / "examples" / "gemm.pipe"
    state = compile_source(Source(path.name, path.read_text(encoding="utf-8")))
    assert state.ptx is not None
    network, certificate = read(state.ptx), state.certificates["gemm"].certificate
    checker.check(network, certificate)
    with monkeypatch.context() as patched:
        patched.setattr(checker, "_MOST_STEPS", 5)
        with pytest.raises(Refused, match="after 5 steps"):
            checker.check(network, certificate)
    checker.check(network, certificate)
    assert allowed.value == math.inf
    monkeypatch.setattr(surroundings, "MOST_WORK", 50)
    with pytest.raises(Unreadable, match="more than 50 steps"):
        read(state.ptx)


def test_the_document_has_every_row() -> None:
    shown = [line for line in (_ROOT / "docs" / "limits.md").read_text().splitlines() if line.startswith("| ")][1:]
    rows = [f"| {row.name} | {row.limit:,} {row.unit} | {row.protects} | {row.code} | {row.advice} |" for row in BUDGETS.values()]
    assert shown == rows
