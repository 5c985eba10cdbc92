"""Runs mypy over the package as it is installed: `runtime/` and `grammar/` stand inside `pipec` there, beside it here.

mypy cannot follow `package-dir` of pyproject.toml, so it sees a folder of links laid out like the wheel.

`typecheck.py [PLATFORM ...]`: for this system, or for the systems named (`linux win32`), at the same time.
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
        running = [_started(folder, platform) for platform in sys.argv[1:] or [sys.platform]]
        status = 0
        for process in running:
            said, _ = process.communicate()
            # The links' names mean the same files in the checkout, so messages can be followed from there.
            for name in ("runtime", "grammar"):
                said = said.replace(f"pipec/{name}/", f"{name}/")
            sys.stdout.write(said)
            status = max(status, process.returncode)
    return status


def _started(folder: str, platform: str) -> "subprocess.Popen[str]":
    """What mypy remembers of one platform holds for no other, so each has a cache of its own."""
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    command += ["--platform", platform, "--cache-dir", str(ROOT / ".mypy_cache" / platform), "-p", "pipec"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


if __name__ == "__main__":
    raise SystemExit(main())
