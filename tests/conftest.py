"""Shared by all tests: their options, samples of large families, one thread per worker. (It also puts tests/ on the path for helpers.)"""

import hashlib
import math
import os
from collections import defaultdict
from collections.abc import Iterator

import pytest

# Before anything imports NumPy. Its matrix products would wait for each other's threads, with one worker for each core.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files from what the compiler says now")
    parser.addoption("--whole-matrix", action="store_true", help="every case of matrices of which a run otherwise takes a sample")
    parser.addoption("--sample-seed", default="1", metavar="TEXT", help="which samples are taken (default: 1)")


def pytest_report_header(config: pytest.Config) -> str:
    if config.getoption("--whole-matrix"):
        return "samples: none, every case runs"
    return f"samples: of tests marked so, --sample-seed {config.getoption('--sample-seed')}; --whole-matrix runs every case"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = any("::" in argument for argument in config.args) or config.getoption("keyword")
    if config.getoption("--whole-matrix") or named:  # what is asked for by name runs
        return
    left_out = set(_left_out(items, config.getoption("--sample-seed")))
    config.hook.pytest_deselected(items=sorted(left_out, key=lambda item: item.nodeid))
    items[:] = [item for item in items if item not in left_out]


def _left_out(items: list[pytest.Item], seed: str) -> Iterator[pytest.Item]:
    """Of each family that is marked `sample(share, of="parameter")` all but that share, at least one of each value of the parameter."""
    families: dict[tuple[str, float, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sample")
        if mark is not None and hasattr(item, "callspec"):
            kind = item.callspec.params[mark.kwargs["of"]] if mark.kwargs else None
            families[item.nodeid.partition("[")[0], mark.args[0], str(getattr(kind, "kind", kind))].append(item)
    for (_, share, _), members in families.items():
        members.sort(key=lambda item: hashlib.sha256(f"{seed}/{item.nodeid}".encode()).digest())
        yield from members[math.ceil(share * len(members)) :]


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return request.config.getoption("--update-golden")
