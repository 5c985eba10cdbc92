"""tools/typecheck.py: which modules are checked for a system that is not this one."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_what_may_differ_on_another_system_is_checked_there() -> None:
    spec = importlib.util.spec_from_file_location("typecheck", ROOT / "tools" / "typecheck.py")
    assert spec and spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    found = set(tool.differing())
    # `resource` itself; who asks for the platform; who imports by name and by dots from one that asks.
    assert {"pipec.commands.guard", "pipec.ptx.process", "pipec.ptx.assemble", "pipec.runtime.gpu.cuda"} <= found
    assert not {"pipec.terms.term", "pipec.checks.summary"} & found
