"""Runs mypy over the package as it is installed: `runtime/` and `grammar/` stand inside `pipec` there, beside it here.

mypy cannot follow `package-dir` of pyproject.toml, so it sees a folder of links laid out like the wheel.

`typecheck.py [PLATFORM ...]`: for this system, or for the systems named (`linux win32`), at the same time. For another system than this
one only what may differ there is looked at: modules that import something whose declaration asks for the platform.
"""

import ast
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import mypy

ROOT = Path(__file__).resolve().parent.parent
STANDARD_LIBRARY = Path(mypy.__file__).parent / "typeshed" / "stdlib"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="pipec-types-") as folder:
        package = Path(folder, "pipec")
        package.mkdir()
        for entry in (ROOT / "pipec").iterdir():
            if entry.name != "__pycache__":
                (package / entry.name).symlink_to(entry)
        for name in ("runtime", "grammar"):
            (package / name).symlink_to(ROOT / name)
        running = {platform: _started(folder, platform, "2") for platform in sys.argv[1:] or [sys.platform]}
        status = 0
        for platform, process in running.items():
            said, _ = process.communicate()
            if "INTERNAL ERROR" in said:
                # On a busy machine its workers may begin too late for it. An error of its own comes again.
                process = _started(folder, platform, "0")
                said, _ = process.communicate()
            # The links' names mean the same files in the checkout, so messages can be followed from there.
            for name in ("runtime", "grammar"):
                said = said.replace(f"pipec/{name}/", f"{name}/")
            sys.stdout.write(said)
            status = max(status, process.returncode)
    return status


def _started(folder: str, platform: str, workers: str) -> "subprocess.Popen[str]":
    """What mypy remembers of one platform holds for no other, so each has a cache of its own."""
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    command += ["--platform", platform, "--cache-dir", str(ROOT / ".mypy_cache" / platform)]
    if platform == sys.platform:
        command += ["-p", "pipec", "--num-workers", workers]
    else:
        command += ["--follow-imports", "silent", *(word for module in differing() for word in ("-m", module))]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def differing() -> list[str]:
    """The modules of the package that see other declarations on another platform: of the standard library, or of ours."""
    stubs = ((path, path.relative_to(STANDARD_LIBRARY)) for path in STANDARD_LIBRARY.rglob("*.pyi"))
    elsewhere = {_name(relative) for path, relative in stubs if _asks(path)}
    elsewhere |= {_name(relative) for path, relative in _modules() if _asks(path)}
    return sorted(
        _name(relative)
        for path, relative in _modules()
        if not elsewhere.isdisjoint((_name(relative), *_imported(path, relative)))
    )


def _asks(path: Path) -> bool:
    return "sys.platform" in path.read_text(encoding="utf-8")


def _modules() -> Iterator[tuple[Path, Path]]:
    """Files of the package, and where they stand in the wheel."""
    for folder in ("pipec", "runtime", "grammar"):
        for path in (ROOT / folder).rglob("*.py"):
            relative = path.relative_to(ROOT)
            yield path, relative if folder == "pipec" else Path("pipec", relative)


def _name(relative: Path) -> str:
    return ".".join(relative.with_suffix("").parts).removesuffix(".__init__")


def _imported(path: Path, relative: Path) -> Iterator[str]:
    """Every name in a file's imports that may be that of a module."""
    folders = relative.parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = folders[: len(folders) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{one.name}" for one in node.names))


if __name__ == "__main__":
    raise SystemExit(main())
