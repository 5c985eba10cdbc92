"""Runs mypy over the package as it is installed: `runtime/` and `grammar/` stand inside `pipec` there, beside it here.

mypy cannot follow `package-dir` of pyproject.toml, so it sees a folder of links laid out like the wheel.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="pipec-types-") as folder:
        package = Path(folder, "pipec")
        package.mkdir()
        for entry in (ROOT / "pipec").iterdir():
            if entry.name != "__pycache__":
                (package / entry.name).symlink_to(entry)
        for name in ("runtime", "grammar"):
            (package / name).symlink_to(ROOT / name)
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir"]
        command += [str(ROOT / ".mypy_cache"), "--no-error-summary", *sys.argv[1:], "-p", "pipec"]
        run = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    # The links' names mean the same files in the checkout, so messages can be followed from there.
    for name in ("runtime", "grammar"):
        run.stdout = run.stdout.replace(f"pipec/{name}/", f"{name}/")
    sys.stdout.write(run.stdout)
    sys.stderr.write(run.stderr)
    return run.returncode


if __name__ == "__main__":
    raise SystemExit(main())
