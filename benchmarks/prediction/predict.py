"""Holds `pipec predict` to measurements: main loops on one multiprocessor of a B200, and tiles of pipec's GEMMs on an H200.

    python benchmarks/prediction/predict.py [--every N] [--only GROUP ...]

Writes benchmarks/results/predict.json, where `dates` says when each group was worked out. What was fitted to which rows stands beside each
figure in pipec/predict/device.py and in docs/time.md; fit_main_loop.py and fit_model.py beside this file leave rows out.
"""

import argparse
import csv
import json
import math
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import write
from benchmarks.prediction.fit_model import RECORD, left_out, parts
from benchmarks.prediction.fit_model import figures as of_choices
from benchmarks.prediction.measured import Measured, measured, noted
from pipec.api.files import read_source
from pipec.diag.message import Failure
from pipec.driver import Options, compile_source
from pipec.kir.plan.types import Plan
from pipec.predict.closed import sustained_clock
from pipec.predict.device import DEVICES
from pipec.predict.explanation import finding
from pipec.predict.launch import Launch, Prediction, prediction
from pipec.predict.sensitivity import variations
from pipec.sema import tree
from pipec.source import Source

DATA = ROOT / "benchmarks" / "data"
SWEEP_CLOCK = 1.3e9  # at which the table of main loops was taken
SHARED_BYTES = 227 * 1024 - 1024  # for the stages where the table says "as many as fit"
MOST_STAGES = 30
BLOCK = 128  # elements of K that share scales in gemm_sm90_blockwise_fp8
FITTED_BLOCKWISE = "8192x8192x8192:fp8"  # whose cycles and clocks constants were fitted to
FITTED_CLOCKS = {f"attention D={size} {mask} 8192" for size in (64, 128) for mask in ("full", "causal")} | {
    f"blockwise {FITTED_BLOCKWISE}"
}
_HELD_OUT = ("fitted to", "left out")
H200 = DEVICES["h200"]
Asked = tuple[tree.Kernel, Plan, dict[str, int]]
DRAWN = ("h200_fresh", "h200_drawn", "h200_random", "h200_mixed")
RECORDS = (RECORD, "h200", "h200_tiles", "h200_choice", "h200_overlap", *DRAWN)  # whose choices are judged
NEAR = 1.3  # tiles within this factor of the best at their shape count

MAIN_LOOP = """
kernel gemm[BM: int, BN: int, BK: int, STAGES: int](a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, BM), ceildiv(N, BN))
    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, BM, BK], b=tile[bf16, BN, BK]), stages=STAGES)
    output = OutputTilePipeline(tmem[f32, BM, BN], stages=1)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, BK)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * BM, k * BK])
                tma.load(s.b, b[block.y * BN, k * BK])
    role mma(warps=1) consumes input produces output:
        with output.produce() as acc:
            for k in range(ceildiv(K, BK)):
                with input.consume() as s:
                    mma(acc, s.a, s.b)
    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[block.x * BM, block.y * BN], acc)
"""


def main_loops() -> list[dict[str, int | float]]:
    """Rows of the table: tile, K block, stages (0: as many as fit), seconds."""
    lines = (line for line in (DATA / "b200_main_loop_bf16.csv").read_text().splitlines() if not line.startswith("#"))
    return [
        {
            "m": int(row["TILE_M"]),
            "n": int(row["TILE_N"]),
            "k": int(row["K"]),
            "block": int(row["TILE_K"]),
            "stages": int(row["STAGES"]),
            "seconds": float(row["time_ms"]) / 1e3,
        }
        for row in csv.DictReader(lines)
    ]


def predicted_main_loop(row: dict[str, Any]) -> Prediction:
    m, n, block = row["m"], row["n"], row["block"]
    stages = row["stages"] or min(MOST_STAGES, SHARED_BYTES // ((m + n) * block * 2 + 16))
    constants = {"BM": m, "BN": n, "BK": block, "STAGES": stages}
    state = compile_source(Source("main_loop.pipe", MAIN_LOOP), Options(constants=constants), "plan")
    assert state.trees is not None and state.plans is not None, state.diagnostics
    sizes = {"M": m, "N": n, "K": row["k"]}
    return Launch(state.trees[0], state.plans[0], sizes, DEVICES["b200"], SWEEP_CLOCK).predict()


def spread(errors: list[float]) -> dict[str, float]:
    """Of relative errors: absolute median, 90th percentile, largest, and the median with its sign."""
    ordered = sorted(map(abs, errors))
    return {
        "rows": len(ordered),
        "median": round(statistics.median(ordered), 4),
        "p90": round(ordered[int(0.9 * (len(ordered) - 1))], 4),
        "largest": round(ordered[-1], 4),
        "bias": round(statistics.median(errors), 4),
    }


def one_multiprocessor(every: int) -> dict[str, Any]:
    errors: dict[str, list[float]] = defaultdict(list)
    tiles: dict[tuple[int, int, int], dict[int, tuple[float, float]]] = defaultdict(dict)
    spent, points = [], []
    for row in main_loops()[::every]:
        started = time.process_time()
        found = predicted_main_loop(row)
        spent.append(time.process_time() - started)
        bound = finding(found.loops[0]).bound
        errors["all"].append(found.seconds / row["seconds"] - 1)
        points.append(_point(row["seconds"], found.seconds, bound))
        errors[f"bound by {bound}"].append(errors["all"][-1])
        stages = int(row["stages"])
        tiles[int(row["m"]), int(row["n"]), int(row["block"])][stages or MOST_STAGES] = found.seconds, row["seconds"]
    off = [_stages_off(found) for found in tiles.values() if len(found) > 1]
    return {
        "errors": {name: spread(found) for name, found in errors.items()},
        "fewest_stages_within_3_percent": {
            "tiles": len(off),
            "right": off.count(0),
            "off_by_one_row": sum(abs(one) == 1 for one in off),
            "worse": sum(abs(one) > 1 for one in off),
        },
        "seconds_with_compilation": statistics.median(spent),
        "points": points,
    }


def _point(measured: float, predicted: float, kind: str) -> str:
    """Microseconds, the ratio of what was predicted to them, and what sort of point it is: for benchmarks/prediction/plots.py."""
    return f"{measured * 1e6:.4g} {predicted / measured:.4f} {kind}"


def _stages_off(rows: dict[int, tuple[float, float]]) -> int:
    """How many rows of the table lie between the fewest stages that suffice by prediction and those by measurement."""
    order = sorted(rows)

    def fewest(which: int) -> int:
        best = min(rows[stages][which] for stages in order)
        return next(place for place, stages in enumerate(order) if rows[stages][which] <= 1.03 * best)

    return fewest(0) - fewest(1)


@cache
def _compiled(example: str, constants: str, arch: str | None = None) -> Any:
    given: dict[str, object] = dict(word.split("=") for word in constants.split())
    state = compile_source(read_source(str(ROOT / "examples" / f"{example}.pipe")), Options(arch, given), until="plan")
    assert state.trees is not None and state.plans is not None, state.diagnostics
    return state.trees[0], state.plans[0]


def predicted_tile(one: Measured) -> float:
    words = one.name.split(" ", 2)
    kernel, plan = _compiled(one.example, words[2] if len(words) > 2 else "")
    sizes = dict(zip("MNK", one.sizes, strict=True))
    return Launch(kernel, plan, sizes, DEVICES["h200"], None, work=one.work).predict().seconds


def whole_gemm(record: str, every: int) -> dict[str, Any]:
    """At shapes to which nothing was fitted."""
    rows = [one for one in left_out(measured(record), parts(measured(RECORD))[0]) if one.kind == "bf16"]
    best = {shape: min(one.seconds for one in rows if one.shape == shape) for shape in {one.shape for one in rows}}
    errors: dict[str, list[float]] = defaultdict(list)
    groups: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    points = []
    for one in rows[::every]:
        found = predicted_tile(one)
        points.append(_point(one.seconds, found, "good" if one.seconds < NEAR * best[one.shape] else "other"))
        groups[one.shape, one.example].append((found, one.seconds))
        if one.seconds < NEAR * best[one.shape]:
            errors[_band(one.seconds)].append(found / one.seconds - 1)
    regrets = [min(group)[1] / min(seconds for _, seconds in group) for group in groups.values() if len(group) > 1]
    return {
        "errors_of_good_tiles": {band: spread(found) for band, found in sorted(errors.items())},
        "regret_of_the_tile_picked": {
            "choices": len(regrets),
            "geomean": round(math.exp(sum(map(math.log, regrets)) / len(regrets)), 4),
            "worst": round(max(regrets), 4),
        },
        **({"points": points} if record == "h200_tiles" else {}),  # thousands elsewhere
    }


def attention() -> dict[str, Any]:
    """benchmarks/results/h200_attention.json; four of six lengths were not looked at when constants were set."""
    errors: dict[str, list[float]] = defaultdict(list)
    for kind, error in attention_errors(lambda length: True):
        errors[kind].append(error)
    return {name: spread(found) for name, found in errors.items()}


def blockwise() -> dict[str, Any]:
    """The tiles of benchmarks/results/h200_blockwise.json within 1.3 of the best at their shape, but for the one that was fitted to."""
    errors: dict[str, list[float]] = defaultdict(list)
    for title, row in _figures("h200_blockwise").items():
        if title == FITTED_BLOCKWISE:
            continue
        screened = {name.removeprefix("pipec "): time for name, time in row["screened"]["pipec"].items()}
        times = {name: time for name, time in screened.items() if not name.startswith("split ")}  # another example's
        for constants, microseconds in times.items():
            if microseconds < NEAR * min(times.values()):
                error = _error(*_blockwise(title, constants), {"microseconds": microseconds})
                errors[_band(microseconds / 1e6)].append(error)
    return {name: spread(found) for name, found in errors.items()}


def attention_errors(asked: Callable[[int], bool]) -> Iterator[tuple[str, float]]:
    """What sort of attention it is, and by which part of the time on record its prediction is off, for lengths that are `asked` for."""
    for title, row in _figures("h200_attention").items():
        size, mask, length = title.split()
        for name, one in row.items() if asked(int(length)) else ():
            if name.startswith("pipec") and "microseconds" in one:
                kind = ", ".join([f"heads of {size}, {mask}", *_kept(name)])
                yield kind, _error(*_attention(size, mask, length, name), one)


def _kept(name: str) -> list[str]:
    """Of a contender's name, what stands in its example's: persistent, roles."""
    return [word for word in name.split()[1:] if "=" not in word]


def _attention(size: str, mask: str, length: str, name: str) -> Asked:
    heads = 16384 // int(length) * 2048 // int(size)
    shape = {"H": heads, "KEPT": heads, "SEQUENCES": 1, "S": int(length), "T": int(length)}
    constants = " ".join([f"D={size} CAUSAL={mask == 'causal'}", *(word for word in name.split() if "=" in word)])
    return (*_compiled("_".join(["attention_sm90", *_kept(name)]), constants, "sm_90a"), shape)


def _blockwise(shape: str, constants: str) -> Asked:
    m, n, k = map(int, shape.removesuffix(":fp8").split("x"))
    sizes = {"M": m, "N": n, "K": k, "KB": -(-k // BLOCK), "NB": -(-n // BLOCK)}
    return (*_compiled("gemm_sm90_blockwise_fp8", constants, "sm_90a"), sizes)


def cycles() -> dict[str, Any]:
    """Of tiles at shapes that nothing was fitted to, and of attention and products with scales by blocks: cycles at the clock that
    multiprocessors noted, and for short turns that clock itself; means over the tiles."""
    errors: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in left_out(noted(long=False), parts(measured(RECORD))[0]):
        errors[one.shape]["cycles"].append(one.estimate(H200, one.clock) / one.seconds - 1)
        errors[one.shape]["clock"].append(sustained_clock(one.work, H200) / (one.clock or inf) - 1)
    for title, row in _figures("h200_clocks").items():
        kind, *words = title.split()
        for name, one in row.items():
            shown = (
                f"{kind}, {'three roles' if 'ROLES=3' in name else 'two roles'}" if kind == "blockwise" else f"{kind}, {words[0]}"
            )
            kernel, plan, sizes = (
                _blockwise(words[0], name) if kind == "blockwise" else _attention(words[0][2:], words[1], words[2], name)
            )
            found = Launch(kernel, plan, sizes, H200, one["clock_mhz"] * 1e6).predict(drawn=False)
            errors[f"{shown}, {_HELD_OUT[title not in FITTED_CLOCKS]}"]["cycles"].append(found.cycles / one["cycles"] - 1)
    return {
        shown: {of: round(statistics.mean(found), 4) for of, found in both.items()}
        | {"tiles": len(both["cycles"]), "absolute": round(statistics.mean(map(abs, both["cycles"])), 4)}
        for shown, both in errors.items()
    }


def copies() -> dict[str, float]:
    """benchmarks/results/copy_tma.json, which counts blocks by multiprocessor."""
    errors = []
    for title, row in _figures("copy_tma").items():
        rows, columns = map(int, title.split("x"))
        for name, one in row.items():
            if name.startswith("pipec"):
                words = dict(word.split("=") for word in name.split()[1:])
                words["BLOCKS"] = str(int(words["BLOCKS"]) * 132)
                constants = " ".join(f"{key}={value}" for key, value in words.items())
                errors.append(_error(*_compiled("copy_tma", constants, "sm_90a"), {"M": rows, "N": columns}, one))
    return spread(errors)


def other_kernels() -> dict[str, Any]:
    """Attention and copies of benchmarks/results/h200_tiles.json, to which nothing was fitted."""
    rows = json.loads((ROOT / "benchmarks" / "results" / "h200_tiles.json").read_text())["others"]
    errors: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        constants = " ".join(f"{name}={value}" for name, value in row["constants"].items())
        errors[row["example"]].append(_error(*_compiled(row["example"], constants, "sm_90a"), row["sizes"], row))
    return {name: spread(found) for name, found in errors.items()}


def choices() -> dict[str, Any]:
    """Tiles that the closed form picks, at shapes that its constants were not fitted to."""
    known = parts(measured(RECORD))[0]
    return {name: of_choices(DEVICES["h200"], left_out(measured(name), known)) for name in RECORDS}


def _figures(record: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / f"{record}.json").read_text())["figures"]
    return found


def _error(kernel: tree.Kernel, plan: Plan, sizes: dict[str, int], row: dict[str, float]) -> float:
    return Launch(kernel, plan, sizes, DEVICES["h200"], None).predict().seconds * 1e6 / row["microseconds"] - 1


SIZE = {"M": 4096, "N": 4096, "K": 4096}
LARGE = {"M": 8192, "N": 8192, "K": 8192}
WIDE = "BM=128 BN=256 BK=64 STAGES="
# Steps that others published (benchmarks/data/b200_published.csv), the slowest first, as kernels of the same kind.
LADDERS: dict[str, list[tuple[str, str, dict[str, int]]]] = {
    "ThunderKittens levels 6 to 9": [
        ("gemm", "BM=128 BN=128 STAGES=1", SIZE),
        ("gemm", f"{WIDE}4", SIZE),
        ("gemm_persistent", f"{WIDE}4", SIZE),
        ("gemm_2cta_persistent", "", SIZE),
    ],
    "learn-cuda v2b, v4, v5, v6": [
        ("gemm", f"{WIDE}1", SIZE),
        ("gemm", f"{WIDE}4", SIZE),
        ("gemm_2cta", "", SIZE),
        ("gemm_2cta_persistent", "", SIZE),
    ],
    "Tilus V3, V5, V6": [("gemm", f"{WIDE}4", LARGE), ("gemm_clc", "", LARGE), ("gemm_2cta_persistent", "", LARGE)],
    "Gluon, one CTA, K 512 to 4096": [("gemm_persistent", f"{WIDE}4", {**LARGE, "K": k}) for k in (512, 1024, 2048, 4096)],
    "Gluon, pairs, K 512 to 2048": [("gemm_2cta_persistent", "", {**LARGE, "K": k}) for k in (512, 1024, 2048)],
    **{
        f"Gluon, one CTA and pairs, K {k}": [
            ("gemm_persistent", f"{WIDE}4", {**LARGE, "K": k}),
            ("gemm_2cta_persistent", "", {**LARGE, "K": k}),
        ]
        for k in (512, 1024, 2048, 4096)
    },
    "Gluon, static tiles and cluster launch control": [("gemm_persistent", f"{WIDE}4", LARGE), ("gemm_clc", "", LARGE)],
    "Gluon, one stage, larger tiles": [
        ("gemm", f"{tile} STAGES=1", {**LARGE, "K": 16384})
        for tile in ("BM=64 BN=64 BK=64", "BM=128 BN=128 BK=64", "BM=128 BN=128 BK=128")
    ],
    "Gluon, mxfp8 and mxfp4": [
        ("gemm_mxfp8", "OUT=f32 BN=128 STAGES=5", {**LARGE, "M_CHUNKS": 64, "N_CHUNKS": 64, "K_CHUNKS": 64}),
        ("gemm_mxfp4", "OUT=f32 BN=128 STAGES=5", {**LARGE, "M_CHUNKS": 64, "N_CHUNKS": 64, "K_CHUNKS": 64}),
    ],
}


def ladders() -> dict[str, Any]:
    """TFLOP/s of each step; `in_order` if each is faster than the one before, as measured."""
    found = {}
    for name, steps in LADDERS.items():
        rates = []
        for example, constants, sizes in steps:
            kernel, plan = _compiled(example, constants, None)
            one = Launch(kernel, plan, sizes, DEVICES["b200"], None).predict()
            rates.append(round(one.flops / one.seconds / 1e12))
        found[name] = {"teraflops": rates, "in_order": rates == sorted(rates)}
    return found


def chosen() -> dict[str, Any]:
    """benchmarks/results/h200_automatic.json: the tile that pipec chose, measured beside the others that the kernel offers."""
    ratios, to_default = [], []
    for row in _figures("h200_automatic").values():
        columns = {name: one["microseconds"]["median"] for name, one in row["columns"].items()}
        ratios.append(columns["automatic"] / min(columns["best"], columns["automatic"]))
        to_default.append(columns["automatic"] / columns["default"])
    return {
        "shapes": len(ratios),
        "to_the_best": round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 4),
        "worst": round(max(ratios), 4),
        "worst_to_the_default": round(max(to_default), 4),
    }


ROWS = {"layer_norm": 512, "rms_norm": 512, "softmax": 32}  # elements of a row, where blocks hold whole ones
HEADS = {"H": 32, "KEPT": 32, "SEQUENCES": 1, "G": 4}


def reports() -> dict[str, Any]:
    """Processor time of `pipec predict` in a process that has everything imported, the least of five: compiling the file with its checks,
    the prediction, and the search for what would help. Reading arguments and printing are left out."""
    found, without = {}, []
    for path in sorted((ROOT / "examples").glob("*.pipe")):
        source = read_source(str(path))
        state = compile_source(source, Options(), until="limits")
        assert state.trees is not None and state.plans is not None, state.diagnostics
        kernel = state.trees[0]
        names = {extent for tensor in kernel.tensors for extent in tensor.shape if isinstance(extent, str)}
        sizes = {name: 32 if "CHUNKS" in name else HEADS.get(name, 4096) for name in names}
        sizes |= {"N": ROWS[path.stem]} if path.stem in ROWS else {}
        try:
            one = prediction(state, kernel.name, sizes)
        except Failure:  # no time without lengths that stand in memory, or at these sizes
            without.append(path.stem)
            continue
        steps: dict[str, Callable[[], Any]] = {
            "compile": lambda source=source: compile_source(source, Options(), until="limits"),
            "predict": lambda state=state, sizes=sizes: prediction(state, state.trees[0].name, sizes),
            "advise": lambda state=state, one=one: variations(state, one.kernel, one),
        }
        found[path.stem] = {name: round(min(_spent(step) for _ in range(5)), 4) for name, step in steps.items()}
    after = sorted(row["predict"] + row["advise"] for row in found.values())
    return {
        "examples": found,
        "without_a_time": without,
        "predict_and_advise": {"median": statistics.median(after), "most": after[-1]},
    }


def _spent(step: Callable[[], Any]) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


def _band(seconds: float) -> str:
    return "above 100 us" if seconds > 100e-6 else "30 to 100 us" if seconds > 30e-6 else "below 30 us"


GROUPS: dict[str, Callable[[int], Any]] = {
    "ladders_b200": lambda every: ladders(),
    "attention_h200": lambda every: attention(),
    "others_h200_tiles": lambda every: other_kernels(),
    "blockwise_h200": lambda every: blockwise(),
    "copies_h200": lambda every: copies(),
    "cycles_h200": lambda every: cycles(),
    "tiles_chosen_h200": lambda every: chosen(),
    "one_multiprocessor_b200": one_multiprocessor,
    "gemm_h200_tiles": lambda every: whole_gemm("h200_tiles", every),
    "gemm_h200": lambda every: whole_gemm("h200", every),
    "gemm_h200_gemm": lambda every: whole_gemm(RECORD, every),
    "choices_h200": lambda every: choices(),
    "reports": lambda every: reports(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="take every Nth row only")
    parser.add_argument(
        "--only", nargs="*", default=[*GROUPS], choices=GROUPS, help="leave the other groups as the record has them"
    )
    options = parser.parse_args()
    figures: dict[str, Any] = _figures("predict")
    for group in options.only:  # what has been worked out is written, should the rest take too long
        figures[group] = GROUPS[group](options.every)
        figures["dates"] = {**figures.get("dates", {}), group: f"{datetime.now(UTC):%Y-%m-%dT%H:%M}"}
        write("predict", figures)


if __name__ == "__main__":
    main()
