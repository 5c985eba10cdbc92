"""Nothing is defined that nobody names: each function, class and constant of the package is mentioned somewhere else as well."""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = ("pipec", "runtime", "tests", "benchmarks", "tools")
# Found by name at run time: lark calls a method for each rule of the grammar, and reads these of its indenter; IPython asks for the HTML.
BY_NAME = {"NL_type", "INDENT_type", "DEDENT_type", "tab_len", "_repr_html_"}
# Asked for by Triton of a driver, a device and a tensor, and hooks of pytest.
BY_NAME |= {
    "is_active", "map_python_to_cpp_type", "get_current_target", "get_current_stream", "get_active_torch_device", "set_current_device",
    "get_device_interface", "get_benchmarker", "get_empty_cache_for_benchmark", "clear_cache", "load_binary", "get_device_properties",
    "launcher_cls", "elapsed_time", "Event", "pytest_addoption", "pytest_configure",
    "pytest_unconfigure", "pytest_runtest_call",
}  # fmt: skip
_GRAMMAR = (ROOT / "grammar" / "pipec.lark").read_text(encoding="utf-8")
RULES = {*re.findall(r"^[?!]?([a-z_]+)\s*:", _GRAMMAR, re.MULTILINE), *re.findall(r"->\s*(\w+)", _GRAMMAR)}
# Decorators that enter what they decorate into a table.
ENTERED = {"instruction", "lowers"}


def defined(tree: ast.AST) -> list[str]:
    found: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name, decorator_list=decorators) | ast.ClassDef(name=name, decorator_list=decorators):
                entered = {part.id for one in decorators for part in ast.walk(one) if isinstance(part, ast.Name)} & ENTERED
                found += [] if entered else [name]
            case ast.Assign(targets=targets):
                found += [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                found.append(name)
    return [name for name in found if not name.startswith("__")]


def test_everything_is_named_somewhere_else() -> None:
    texts = {path: path.read_text(encoding="utf-8") for place in PLACES for path in (ROOT / place).rglob("*.py")}
    mentions = Counter(word for text in texts.values() for word in re.findall(r"\w+", text))
    dead = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in texts.items()
        if path.relative_to(ROOT).parts[0] in ("pipec", "runtime")
        for name in defined(ast.parse(text))
        if mentions[name] == 1 and name not in BY_NAME | RULES
    ]
    assert dead == []


def test_a_dead_name_would_be_found() -> None:
    tree = ast.parse("def used(): pass\n@lowers(tree.Mma)\ndef entered(): pass\nLIMIT: int = 3\nclass Row:\n    field: int\n")
    assert defined(tree) == ["used", "LIMIT", "Row"]
