"""Shared by all tests: their options, samples of large families, groups for workers, one thread per worker.

(It also puts tests/ on the path for helpers.)
"""

import gc
import os

import pytest
from samples import LEFT_OUT, compiles, left_out, number_of, seed_of_commit, take
from shared import grouped, shuffled
from skips import StrictSkips

# Before anything imports NumPy. Its matrix products would wait for each other's threads, with one worker for each core.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
# pipec's own processes collect no garbage at all; at Python's 700 new objects it takes an eighth of the time here.
gc.set_threshold(50_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files from what the compiler says now")
    parser.addoption("--whole-matrix", action="store_true", help="every case of matrices of which a run otherwise takes a sample")
    parser.addoption(
        "--sample-seed", default=seed_of_commit(), metavar="TEXT", help="which samples are taken (default: the commit's name)"
    )
    parser.addoption(
        "--shuffle", metavar="TEXT", help="the tests in another order, drawn by this seed: none may depend on another"
    )
    parser.addoption(
        "--strict-skips", action="store_true", help="fail when a test is skipped that CI has all for (tests/skips.py)"
    )


# First: hypothesis reads its seed in its own.
@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--strict-skips") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(StrictSkips())
    take(_everything(config), config.getoption("--sample-seed"))
    if getattr(config.option, "hypothesis_seed", "") is None:
        config.option.hypothesis_seed = number_of(config.getoption("--sample-seed"))


def pytest_report_header(config: pytest.Config) -> str:
    if config.getoption("--whole-matrix"):
        return "samples: none, every case runs"
    return f"samples: of tests marked so, --sample-seed {config.getoption('--sample-seed')}; --whole-matrix runs every case"


# First: pytest-xdist's own, which is registered later and so runs earlier, writes the groups into the names that its scheduler reads.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    grouped(items)
    if config.getoption("--shuffle"):
        shuffled(items, config.getoption("--shuffle"))
    if _everything(config):
        return
    out = set(left_out(items, config.getoption("--sample-seed")))
    for item in [item for item in out if compiles(item)]:
        item.stash[LEFT_OUT] = True
        out.remove(item)
    config.hook.pytest_deselected(items=sorted(out, key=lambda item: item.nodeid))
    items[:] = [item for item in items if item not in out]


def pytest_collection_finish() -> None:
    """What stays until the end is left out of each search for garbage: ten thousand tests and all that they import."""
    gc.collect()
    gc.freeze()


def _everything(config: pytest.Config) -> bool:
    """What is asked for by name runs, too."""
    named = any("::" in argument for argument in config.args) or config.getoption("keyword")
    return bool(config.getoption("--whole-matrix") or named)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return request.config.getoption("--update-golden")
