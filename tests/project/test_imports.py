"""Data flows downwards: a part of pipec imports only the leaves and the parts above it in this list, and no modules import each
other in a circle, inside a part either."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEAVES = (
    "_version",
    "vocabulary",
    "record",
    "budgets",
    "arithmetic",
    "source",
    "interface",
    "blocked_waits",
    "cache",
    "garbage",
    "llvm_lock",
    "grammar",
    "isa",
    "diag",
)
LAYERS = (
    *LEAVES,
    "verify",
    "watchdog",
    "timestamps",
    "syntax",
    "terms",
    "sema",
    "kir",
    "checks",
    "lower",
    "ptx",
    "protocol",
    "sim",
    "runtime",
    "driver",
    "reference",
    "predict",
    "tune",
    "bundle",
    "api",
    "library",
    "operators",
    "torch",
    "host",
    "triton",
    "cute",
    "commands",
    "__main__",
)
# Beyond the order: the simulator is a second reading of the reference, so it shares nothing with what emits PTX; the checker of proofs
# shares nothing with anything but how classes of values are made.
EVERYTHING = tuple(layer for layer in LAYERS if layer not in ("verify", "record"))
NEVER = {
    "verify": EVERYTHING,
    "sim": ("syntax", "sema", "kir", "checks", "lower", "ptx"),
    "runtime": ("syntax", "sema", "kir", "checks", "lower"),
}

# The same inside parts that are folders of folders: each imports only those before it.
INSIDE = {
    "sim": (
        "compiled",
        "units",
        "errors",
        "findings",
        "ptx",
        "machine",
        "instructions",
        "load",
        "arguments",
        "explore",
        "unwritten",
        "unset",
        "unfenced",
        "launch",
        "timeline",
    ),
    "protocol": (
        "deduction",
        "forms",
        "variables",
        "facts",
        "program",
        "schedules",
        "refuting",
        "effort",
        "search",
        "restating",
        "divisors",
        "remembered",
        "prove",
        "folding",
        "walks",
        "judgement",
        "pairs",
        "ways",
        "judge",
        "reporting",
    ),
    "verify": (
        "per_thread",
        "terms",
        "inequalities",
        "renaming",
        "definitions",
        "logic",
        "data",
        "network",
        "conditions",
        "condition_text",
        "reader",
        "checker",
        "document",
        "explanation",
        "accept",
    ),
    "verify.reader": ("text", "flow", "values", "processes", "read", "readings"),
}
# The two halves of the checking of proofs know of each other nothing but the network.
APART = {("verify.checker", "verify.reader")}
# Circles of modules that are allowed, with a reason each: none.
KNOWN_CIRCLES: set[frozenset[str]] = set()

FILES = [*(ROOT / "pipec").rglob("*.py"), *(ROOT / "runtime").rglob("*.py"), *(ROOT / "grammar").rglob("*.py")]


def module_of(file: Path) -> str:
    """The dotted name: runtime/gpu/cuda.py is pipec.runtime.gpu.cuda."""
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
    if (
        part in LEAVES
        and imported not in ("vocabulary", "record", "budgets", "arithmetic")
        and not (part == "diag" and imported == "source")
    ):
        return f"{part} is a leaf"
    return f"{imported} lies below {part}" if LAYERS.index(imported) > LAYERS.index(part) else None


def test_order_of_the_document() -> None:
    """The table of docs/architecture.md has the parts in this order: a row may import the rows above it."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE)
    words = [[Path(word).stem for word in row.replace("`", " ").split()] for row in rows if "`docs/" not in row]
    parts = [[word for word in row if word in LAYERS] for row in words]
    assert {part for row in parts for part in row} == set(LAYERS) - {"_version", "__main__"}
    last = [max(0 if part in LEAVES else LAYERS.index(part) for part in row) for row in parts if row]
    assert last == sorted(last)


def inner_order(module: str, imported: str) -> str | None:
    """Why a module of a folder in INSIDE must not import another one of that folder; None when it may."""
    for folder, order in INSIDE.items():
        mine, other = place_in(folder, module), place_in(folder, imported)
        if mine is None or other is None:
            continue
        assert mine in order and other in order, f"{mine} or {other} has no place in the order of {folder}"
        if order.index(other) > order.index(mine):
            return f"{other} lies below {mine}"
        if (f"{folder}.{mine}", f"{folder}.{other}") in APART:
            return f"{mine} never imports {other}"
    return None


def place_in(folder: str, module: str) -> str | None:
    """What of the folder the module is, or lies in."""
    rest = module.removeprefix(f"pipec.{folder}.")
    return rest.partition(".")[0] if rest != module else None


def graph(files: list[Path]) -> dict[str, set[str]]:
    """Which modules each module imports: wherever the import stands, in a function and for types alone too."""
    modules = {module_of(file) for file in files}
    edges: dict[str, set[str]] = {}
    for file in files:
        found = edges.setdefault(module_of(file), set())
        package = module_of(file).split(".")
        package = package if file.stem == "__init__" else package[:-1]
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= modules & {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = ".".join([*(package[: len(package) - node.level + 1] if node.level else ()), *filter(None, [node.module])])
                names = {f"{base}.{alias.name}" for alias in node.names}
                found |= modules & (names if names <= modules else names | {base})
    return edges


def circles(edges: dict[str, set[str]]) -> set[frozenset[str]]:
    """The sets of modules, of two and more, each of which leads to all the others."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            fresh = edges.get(waiting.pop(), set()) - seen
            seen |= fresh
            waiting.extend(fresh)
        return seen

    reach = {module: reached(module) for module in edges}
    return {frozenset(other for other in reach[module] if module in reach[other]) for module in edges if module in reach[module]}


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_imports_point_upwards(file: Path) -> None:
    part = part_of(module_of(file))
    if part is None:
        return  # pipec/__init__.py shows the faces
    assert part in LAYERS, f"{part} has no place in LAYERS"
    wrong = []
    for line, name in imports(file):
        imported = part_of(name)
        why = complaint(part, imported) if imported in LAYERS else None
        if why := why or inner_order(module_of(file), name):
            wrong.append(f"{file.relative_to(ROOT)}:{line} imports {name}: {why}")
    assert not wrong, "\n".join(wrong)


def test_no_circles() -> None:
    """A circle that is gone leaves KNOWN_CIRCLES too."""
    found = circles(graph(FILES))
    assert found == KNOWN_CIRCLES, [sorted(circle) for circle in found ^ KNOWN_CIRCLES]


def test_the_rules_themselves() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == {frozenset({"b", "c"})}
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == set()
    assert inner_order("pipec.sim.ptx.parse", "pipec.sim.machine.cta") and inner_order("pipec.sim.machine.cta", "pipec.sim.load")
    assert inner_order("pipec.verify.checker.check", "pipec.verify.reader.read")
    assert inner_order("pipec.verify.reader.values.tables", "pipec.verify.reader.read")
    assert not inner_order("pipec.verify.reader.values.tables", "pipec.verify.reader.text.opcodes")
    assert not inner_order("pipec.sim.machine.cta", "pipec.sim.ptx.tree") and not inner_order(
        "pipec.commands.launching.run", "pipec.sim.launch"
    )
    assert complaint("isa", "lower") and complaint("isa", "sim") and complaint("sim", "lower") and complaint("sema", "kir")
    assert not complaint("sim", "isa") and not complaint("diag", "source") and not complaint("commands", "sim")
