"""Kernels that note the clock, in the simulator, whose clock is its own time."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipec
from pipec.commands.cli import main
from pipec.interface import KernelInterface, from_json, to_json
from pipec.runtime import random_arguments
from pipec.timestamps import EACH, Stamped, stamped, words

EXAMPLES = Path(__file__).parents[2] / "examples"
Capture = pytest.CaptureFixture[str]


def run(name: str, room: int | None = None, **sizes: int) -> tuple[KernelInterface, list[Stamped], dict[str, Any]]:
    """A kernel whose tensor for the clock has `room` words, by default for two blocks."""
    kernel = pipec.compile(EXAMPLES / f"{name}.pipe", timestamps=True)[name]
    count = words(kernel.interface, 2) if room is None else room
    arguments = random_arguments(kernel.interface, {**sizes, "TIMESTAMPS": count}, 0)
    arguments["timestamps"][...] = 0
    kernel(**arguments, device="sim")
    return kernel.interface, list(stamped(kernel.interface, arguments["timestamps"].tolist())), arguments


def product(arguments: dict[str, Any]) -> np.ndarray[Any, Any]:
    a, b = (arguments[name].astype(np.float64) for name in "ab")
    return a @ b.T


@pytest.mark.parametrize("name", ["gemm", "gemm_sm90", "gemm_persistent", "gemm_2cta"])
def test_timestamps_do_not_change_the_result_and_increase(name: str) -> None:
    interface, found, arguments = run(name, M=256, N=256, K=256)
    assert np.allclose(arguments["d"].astype(np.float64), product(arguments), rtol=0.02, atol=0.3)
    assert interface.timestamps is not None and {one.role for one in found} == set(interface.timestamps.roles)
    assert all(0 <= one.start <= one.end for one in found) and min(one.start for one in found) == 0
    for block in {one.block for one in found}:
        for role in interface.timestamps.roles:
            mine = [one for one in found if (one.block, one.role) == (block, role)]
            assert all(before.end <= after.start for before, after in itertools.pairwise(mine))


def test_waits_end_in_the_order_of_the_protocol() -> None:
    """Four blocks of K in four stages: the multiplying role has its stages after the loading one had them, the epilogue comes last."""
    interface, found, _ = run("gemm", M=128, N=256, K=256)
    loads, products = ([one for one in found if one.role == role and one.what == "wait for input"] for role in ("load", "mma"))
    assert len(loads) == len(products) == 4
    assert all(load.end < product.end for load, product in zip(loads, products, strict=True))
    (last,) = [one for one in found if one.what == "wait for output" and one.role == "epilogue"]
    assert last.end > products[-1].end
    assert interface.timestamps is not None
    lines = (EXAMPLES / "gemm.pipe").read_text(encoding="utf-8").splitlines()
    assert "store(d" in lines[next(one.line for one in found if one.what == "store d") - 1]


@pytest.mark.parametrize("room", [0, 1, 7, 6 * EACH - 1])
def test_what_there_is_no_room_for_is_not_written(room: int) -> None:
    _, found, arguments = run("gemm", room, M=256, N=512, K=256)
    assert np.allclose(arguments["d"].astype(np.float64), product(arguments), rtol=0.02, atol=0.3)
    assert found == []


def test_more_than_a_role_has_room_for() -> None:
    _, found, _ = run("gemm", M=128, N=256, K=64 * (EACH // 2 + 20))
    assert sum(one.role == "load" for one in found) == EACH // 2


def test_off_by_default() -> None:
    plain, noting = (pipec.compile(EXAMPLES / "gemm.pipe", timestamps=flag) for flag in (False, True))
    assert "clock" not in plain.ptx and "%clock64" in noting.ptx
    assert plain["gemm"].interface.timestamps is None and "timestamps" not in to_json(plain["gemm"].interface)
    assert from_json(to_json(noting["gemm"].interface)) == noting["gemm"].interface


def test_the_command_draws_them(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "t.json"
    sizes = ["--shape", "M=128", "N=256", "K=256"]
    assert main(["run", str(EXAMPLES / "gemm.pipe"), *sizes, "--device", "sim", "--timestamps", "--timeline", str(out)]) == 0
    events = json.loads(out.read_text())["traceEvents"]
    assert {event["tid"] for event in events} == {"load", "mma", "epilogue"}
    assert any(event["name"] == "store d" and event["dur"] > 0 for event in events)
    assert main(["compile", str(EXAMPLES / "gemm.pipe"), "--timestamps", "--certificate", str(tmp_path / "c.json")]) == 1
    assert "error[E1107]" in capsys.readouterr().err
