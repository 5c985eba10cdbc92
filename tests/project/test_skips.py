"""`--strict-skips` fails a run in which a test is skipped for want of something that CI has."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


@pytest.mark.parametrize(
    ("reason", "status"),
    [("neither ptxas nor nvJitLink is here", 1), ("needs an sm_90a GPU: no driver", 0), ("torch is not installed", 0)],
)
@pytest.mark.parametrize("where", ["skipif", "importorskip"])
def test_only_reasons_that_are_named_are_allowed(where: str, reason: str, status: int, tmp_path: Path) -> None:
    line = f'@pytest.mark.skipif(True, reason="{reason}")\ndef test_a(): pass\n'
    if where == "importorskip":
        line = f'pytest.importorskip("no_such_module", reason="{reason}")\n'
    (tmp_path / "test_it.py").write_text(f"import pytest\n{line}")
    (tmp_path / "test_other.py").write_text("def test_b(): pass\n")
    (tmp_path / "conftest.py").write_text(
        f"import sys\nsys.path.append({str(TESTS)!r})\nfrom skips import StrictSkips\n"
        "def pytest_configure(config): config.pluginmanager.register(StrictSkips())\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == status, ended.stdout
    assert (reason in ended.stdout.partition("does not allow it")[2]) == bool(status)


def test_ci_asks_for_it() -> None:
    assert "--strict-skips" in (ROOT / ".ci" / "run").read_text()
