"""Data flows downwards: a part of pipec imports only the leaves and the parts above it in this list."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEAVES = ("_version", "record", "source", "interface", "blocked", "grammar", "isa", "diag")
LAYERS = (
    *LEAVES,
    "watchdog",
    "syntax",
    "sema",
    "kir",
    "checks",
    "lower",
    "ptx",
    "sim",
    "runtime",
    "driver",
    "report",
    "narrow",
    "reference",
    "timeline",
    "files",
    "program",
    "embed",
    "run",
    "argument_text",
    "foreign",
    "cli",
    "__main__",
)
# Beyond the order: the simulator is a second reading of the reference, so it shares nothing with what emits PTX.
NEVER = {"sim": ("syntax", "sema", "kir", "checks", "lower", "ptx"), "runtime": ("syntax", "sema", "kir", "checks", "lower")}

FILES = [*(ROOT / "pipec").rglob("*.py"), *(ROOT / "runtime").rglob("*.py"), *(ROOT / "grammar").rglob("*.py")]


def module_of(file: Path) -> str:
    """The dotted name: runtime/cuda.py is pipec.runtime.cuda."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "pipec" else ("pipec", *parts)
    return ".".join(parts).removesuffix(".__init__")


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything a file imports from pipec, relative imports resolved."""
    package = module_of(file).split(".")
    package = package if file.stem == "__init__" else package[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            name = ".".join(part for part in (base, node.module) if part)
            # `from pipec import sim` imports the part sim.
            yield from ((node.lineno, f"{name}.{alias.name}" if name == "pipec" else name) for alias in node.names)


def part_of(module: str) -> str | None:
    names = module.split(".")
    return names[1] if names[0] == "pipec" and len(names) > 1 else None


def complaint(part: str, imported: str) -> str | None:
    """Why `part` must not import `imported`; None when it may."""
    if imported == part:
        return None
    if imported in NEVER.get(part, ()):
        return f"{part} never imports {imported}"
    if part in LEAVES and imported != "record" and not (part == "diag" and imported == "source"):
        return f"{part} is a leaf"
    return f"{imported} lies below {part}" if LAYERS.index(imported) > LAYERS.index(part) else None


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_imports_point_upwards(file: Path) -> None:
    part = part_of(module_of(file))
    if part is None:
        return  # pipec/__init__.py shows the faces
    assert part in LAYERS, f"{part} has no place in LAYERS"
    wrong = []
    for line, name in imports(file):
        imported = part_of(name)
        if imported in LAYERS and (why := complaint(part, imported)):
            wrong.append(f"{file.relative_to(ROOT)}:{line} imports {name}: {why}")
    assert not wrong, "\n".join(wrong)


def test_the_rules_themselves() -> None:
    assert complaint("isa", "lower") and complaint("isa", "sim") and complaint("sim", "lower") and complaint("sema", "kir")
    assert not complaint("sim", "isa") and not complaint("diag", "source") and not complaint("cli", "sim")
