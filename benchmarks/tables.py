"""Writes the tables of measured figures in README.md and docs/ from benchmarks/results/*.json, so that no figure is typed by hand.

    python benchmarks/tables.py [--check]

A table stands between `<!-- figures: NAME -->` and `<!-- end of figures -->`. `--check` changes nothing and fails when one is not what the
results say; a test does the same.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from math import exp, log
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
sys.path[:0] = [str(ROOT)]

from benchmarks.gemm_shapes import GROUPS

DOCUMENTS = ("README.md", "docs/benchmarks.md", "docs/gpu.md", "docs/simulator.md", "docs/time.md", "docs/tuning.md")
_BLOCK = re.compile(r"(<!-- figures: (?P<name>[\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_OURS = ("default", "automatic", "best", "chosen", "any", "serial")

Record = Mapping[str, Any]


def geomean(values: Iterable[float]) -> float:
    found = list(values)
    return exp(sum(map(log, found)) / len(found))


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _head(*cells: str) -> list[str]:
    return [_row(*cells), "|" + "---|" * len(cells)]


def _where(record: Record) -> str:
    smi = record.get("nvidia_smi", {})
    versions = f"torch {record['torch']}, Triton {record['triton']}, cuBLASLt {record['cublaslt']}"
    commit = record["source"]["commit"][:12]
    return f"{record['date'][:10]}, {record['gpu']}, driver {smi.get('driver_version', 'unknown')}, {versions}, pipec {commit}."


# ----------------------------------------------------------------------------------------------------------------- tables


def gemm_summary(record: Record) -> list[str]:
    """Geometric means of the ratios to tuned cuBLASLt, group by group."""
    present = [column for column in _OURS if any(column in row["columns"] for row in record["figures"].values())]
    lines = [f"{_where(record)} Speed relative to tuned cuBLASLt, geometric mean (worst):", ""]
    lines += _head("shapes", "how many", "torch.matmul", "Triton, tuned", *(f"pipec, {_TITLES[column]}" for column in present))
    for group, what in GROUPS.items():
        rows = [row for row in record["figures"].values() if row["group"] == group]
        if rows:
            lines.append(_row(f"{group}: {what}", len(rows), *(_mean(rows, column) for column in ("torch", "triton", *present))))
    return lines


_TITLES = {
    "default": "tile in the file",
    "automatic": "tile chosen",
    "best": "best tile",
    "chosen": "kernel chosen",
    "any": "best example",
    "serial": "best example, launches one after the other",
}


def _mean(rows: list[Record], column: str) -> str:
    ratios = [row["columns"][column]["ratio"]["median"] for row in rows if "ratio" in row["columns"].get(column, {})]
    if not ratios:
        return "-"
    return f"{geomean(ratios):.2f} ({min(ratios):.2f})" + ("" if len(ratios) == len(rows) else f" of {len(ratios)}")


def gemm(record: Record) -> list[str]:
    """Every shape."""
    present = [column for column in _OURS if any(column in row["columns"] for row in record["figures"].values())]
    lines = [_where(record), ""]
    lines += _head(
        "M x N x K",
        "cuBLASLt, tuned",
        "noise",
        "torch.matmul",
        "Triton",
        *(_TITLES[column] for column in present),
        "which is best",
    )
    for shape, row in record["figures"].items():
        columns = row["columns"]
        base = columns.get("cublaslt")
        best = columns.get("any", columns.get("best", {"name": "-"}))["name"].removeprefix("pipec ")
        lines.append(
            _row(
                shape.replace("x", " x ").replace(":fp8", ", e4m3"),
                "-" if base is None else f"{base['teraflops']:.0f} TFLOP/s, {_microseconds(base)} us",
                "-" if "noise" not in row else f"{max(row['noise']['high'], 1 / row['noise']['low']) - 1:.1%}",
                *(_ratio(columns, column) for column in ("torch", "triton", *present)),
                best,
            )
        )
    return lines + [""] + [f"Left out for want of time: {', '.join(record['left_out']) or 'none'}."]


def _microseconds(figures: Record) -> str:
    return f"{figures['microseconds']['median']:.4g}"


def _ratio(columns: Mapping[str, Record], column: str) -> str:
    ratio = columns.get(column, {}).get("ratio")
    return "-" if ratio is None else f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def fresh(record: Record) -> list[str]:
    """Calls whose output is another tensor each time."""
    lines = _head("M x N x K", "torch", "Triton", *(f"pipec, {_TITLES[column]}" for column in _OURS[:3]))
    for shape, row in record["fresh"].items():
        figures = row["microseconds_per_call"]
        cells = (f"{figures[name]['median']:.4g} us" if name in figures else "-" for name in ("torch", "triton", *_OURS[:3]))
        lines.append(_row(shape.replace("x", " x "), *cells))
    return lines


def split_k(record: Record) -> list[str]:
    """Examples with and without a split of K, each with its fastest tile."""
    lines = _head("M x N x K", "cuBLAS", "pipec, no split", "pipec, split K in turns", "no split / split, in time")
    for shape, row in record["figures"].items():
        times = {name: one["microseconds"] for name, one in row.items() if isinstance(one, dict) and "microseconds" in one}
        split = min((name for name in times if "split_k" in name), key=times.__getitem__)
        whole = min((name for name in times if "persistent" in name), key=times.__getitem__)
        splits = re.search(r"SPLITS=(\d+)", split)
        assert splits is not None
        lines.append(
            _row(
                shape.removesuffix(":split").replace("x", " x "),
                f"{times['cublas']:.1f} us",
                f"{times[whole]:.1f}",
                f"{times[split]:.1f} ({splits[1]} splits)",
                f"{times[whole] / times[split]:.2f}",
            )
        )
    return lines


def attention(record: Record) -> list[str]:
    """Against cuDNN, with the fastest tile. Ratios within rounds where the record has them."""
    rounds = any("to cudnn" in one for row in record["figures"].values() for one in row.values())
    lines = [] if rounds else ["Measured with the contenders in one fixed order, so with an error of a few per cent:", ""]
    lines += _head("head size", "mask", "sequence", "cuDNN", "FlashAttention-2", "pipec", "pipec / cuDNN")
    for name, row in record["figures"].items():
        size, mask, length = name.split()
        speeds = {which: one["teraflops"] for which, one in row.items() if "teraflops" in one}
        ours = max((which for which in speeds if which.startswith("pipec")), key=speeds.__getitem__)
        ratio = row[ours]["to cudnn"]["median"] if rounds else speeds[ours] / speeds["cudnn"]
        with_mask = "with" if mask == "causal" else "without"
        cells = (f"{speeds['cudnn']:.0f} TFLOP/s", f"{speeds['flash']:.0f}", f"{speeds[ours]:.0f}", f"{ratio:.2f}")
        lines.append(_row(size, with_mask, length, *cells))
    return lines


def decode(record: Record) -> list[str]:
    """The fastest tile beside what torch has; the ratio is to the fastest of it, within rounds."""
    lines = _head("", "cuDNN", "FlashAttention-2", "pipec", "GB/s", "to the fastest rival", "tile")
    for name, row in record["figures"].items():
        times = {which: one["microseconds"] for which, one in row.items() if "microseconds" in one}
        ours = min((which for which in times if which.startswith("pipec")), key=times.__getitem__)
        ratio, tile = row[ours]["to the fastest rival"]["median"], ours.removeprefix("pipec ")
        cells = (f"{times['cudnn']:.1f} us", f"{times['flash']:.1f}", f"{times[ours]:.1f}")
        lines.append(_row(name, *cells, f"{row[ours]['gigabytes_per_second']:.0f}", f"{ratio:.2f}", tile))
    return lines


def epilogue(record: Record) -> list[str]:
    """Microseconds, and each fused time beside the product alone; ratios within rounds."""
    lines = _head(
        "M x N x K",
        "cuBLASLt, fused",
        "cuBLASLt, product alone",
        "pipec, fused",
        "pipec, product alone",
        "fused, pipec / cuBLASLt",
    )
    for shape, row in record["figures"].items():
        times = [row[family]["microseconds"] for family in ("cublaslt", "plain cublaslt", "pipec", "plain pipec")]
        cells = (f"{times[0]:.1f} us", *(f"{one:.1f}" for one in times[1:]), f"{row['pipec']['ratio']['median']:.2f}")
        lines.append(_row(shape.replace("x", " x "), *cells))
    return lines


def blockwise(record: Record) -> list[str]:
    """Times of the fastest of each side; ratios within rounds."""
    lines = [f"{record['date'][:10]}, {record['gpu']}, torch {record['torch']}, cuBLASLt {record['cublaslt']}.", ""]
    lines += _head("M x N x K", "cuBLASLt", "torch", "pipec", "pipec / cuBLASLt", "tile of pipec")
    for shape, row in record["figures"].items():
        times = [f"{row[side]['microseconds']:.1f}" if side in row else "-" for side in ("cublaslt", "torch")]
        ours = row["pipec"]
        cells = f"{times[0]} us", times[1], f"{ours['microseconds']:.1f} ({ours['teraflops']:.0f} TFLOP/s)"
        ratio = f"{ours['to cublaslt']['median']:.2f}" if "to cublaslt" in ours else "-"
        lines.append(_row(shape.removesuffix(":fp8").replace("x", " x "), *cells, ratio, ours["name"].removeprefix("pipec ")))
    return lines


def grouped(record: Record) -> list[str]:
    """Against torch's grouped product."""
    lines = [f"{record['date'][:10]}, {record['gpu']}, torch {record['torch']}.", ""]
    lines += _head("rows x N x K", "rows of a group", "torch", "pipec", "pipec / torch", "tile of pipec")
    for shape, row in record["figures"].items():
        ours, theirs = row["pipec"], row.get("torch")
        size, _, groups = shape.partition(" in ")
        cells = [f"{size.replace('x', ' x ')}, {groups}", f"{row['rows']['least']} to {row['rows']['most']}"]
        cells += [f"{theirs['microseconds']:.1f} us" if theirs else "-", f"{ours['microseconds']:.1f}"]
        cells += [f"{ours['to torch']['median']:.2f}" if theirs else "-", ours["name"].removeprefix("pipec ")]
        lines.append(_row(*cells))
    return lines


def copying(record: Record) -> list[str]:
    """Against the faster of torch's copy and the driver's."""
    lines = _head("M x N", "driver", "pipec", "ratio")
    for shape, row in record["figures"].items():
        speeds = {
            name: one["gigabytes_per_second"] for name, one in row.items() if isinstance(one, dict) and "microseconds" in one
        }
        ours = max(speed for name, speed in speeds.items() if name.startswith("pipec"))
        theirs = max(speed for name, speed in speeds.items() if not name.startswith("pipec"))
        lines.append(_row(shape.replace("x", " x "), f"{theirs:.0f} GB/s", f"{ours:.0f}", f"{ours / theirs:.2f}"))
    return lines


_RIVALS = ("torch", "torch.compile", "triton")
_MEMORY = {
    "copy": "a copy",
    "scale_add": "relu(alpha * x + r)",
    "softmax": "softmax",
    "rms_norm": "RMS norm",
    "rms_norm_residual": "RMS norm of a sum, which is stored, too",
    "rms_norm_fp8": "RMS norm to e4m3, with a scale for each row",
    "layer_norm": "layer norm",
}


def memory_summary(record: Record) -> list[str]:
    """Kernels that are bound by memory, one row for each: the speed of pipec relative to each rival."""
    when = (
        f"{record['date'][:10]}, {record['gpu']}, driver {record['driver']}, torch {record['torch']}, Triton {record['triton']}."
    )
    lines = [f"{when} Speed of pipec relative to the rival, geometric mean (worst):", ""]
    lines += _head("operation", "torch", "torch.compile", "Triton, tuned", "the fastest of them")
    for operation, words in _MEMORY.items():
        rows = [row["columns"]["pipec"]["to"] for name, row in record["figures"].items() if name.split()[0] == operation]
        ratios = [[row[rival]["median"] for row in rows if rival in row] for rival in _RIVALS]
        ratios.append([min(ratio["median"] for ratio in row.values()) for row in rows])
        lines.append(_row(words, *(f"{geomean(found):.2f} ({min(found):.2f})" for found in ratios)))
    return lines


def memory(record: Record) -> list[str]:
    """Every operation, shape and type."""
    lines = _head(
        "operation", "rows x columns", "type", "torch", "torch.compile", "Triton", "pipec", "to the fastest rival", "tile"
    )
    for name, row in record["figures"].items():
        operation, shape, kind = name.split()
        columns = row["columns"]
        ours = columns["pipec"]
        speeds = (f"{columns[rival]['gigabytes_per_second']:.0f}" if rival in columns else "-" for rival in _RIVALS)
        ratio = min(ours["to"].values(), key=lambda one: one["median"])
        interval = f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
        tile = ours["name"].partition(" ")[2].partition(" ")[2]
        lines.append(
            _row(operation, shape.replace("x", " x "), kind, *speeds, f"{ours['gigabytes_per_second']:.0f} GB/s", interval, tile)
        )
    return lines


_STAGES = ("parse", "analyse", "build", "check", "plan", "limits", "lower", "emit", "prove")


def gemm_choice(record: Record) -> list[str]:
    """What the choice among kernels costs beside the best tile of each record, group by group."""
    lines = _head(
        "record",
        "shapes",
        "how many",
        "best tile on record",
        "chosen among those on record",
        "cost: geometric mean, worst",
        "chosen among all is on record, and its cost",
    )
    for name, found in record["figures"].items():
        for group in GROUPS:
            rows = [row for row in found["shapes"].values() if row["group"] == group]
            costs, judged = [row["cost_on_record"] for row in rows], [row["cost"] for row in rows if row["cost"] is not None]
            cells = (
                f"{geomean(row['best_ratio'] for row in rows):.2f}",
                f"{geomean(row['best_ratio'] / row['cost_on_record'] for row in rows):.2f}",
                f"{geomean(costs):.3f}, {max(costs):.2f}",
                f"at {len(judged)}: {geomean(judged):.3f}, {max(judged):.2f}" if judged else "nowhere",
            )
            lines.append(_row(name, group, len(rows), *cells))
    return lines


def chosen_then(record: Record) -> list[str]:
    """What was measured of the choice among kernels, where it was a contender of its own."""
    lines = _head(
        "shapes",
        "how many",
        "tile chosen in one kernel",
        "kernel and tile chosen",
        "best of the dozen put first",
        "after `tune`",
        "best tile",
        "cost of the choice, worst",
    )
    for group in GROUPS:
        rows = [row["columns"] for row in record["figures"].values() if row["group"] == group and "chosen" in row["columns"]]
        names = ("automatic", "chosen", "dozen", "tuned", "any")
        ratios = {name: [row[name]["ratio"]["median"] for row in rows] for name in names}
        worst = max(best / chosen for best, chosen in zip(ratios["any"], ratios["chosen"], strict=True))
        lines.append(_row(group, len(rows), *(f"{geomean(one):.2f}" for one in ratios.values()), f"{worst:.2f}"))
    return lines


def compiling(record: Record) -> list[str]:
    """Milliseconds of processor time, stage by stage."""
    figures, machine, versions = record["figures"], record["machine"], record["versions"]
    whole = figures["whole_process_seconds"]["processor"]["median"]
    where = f"{record['date'][:10]}, {machine['processor']} with {machine['cores']} cores, load {machine['load']:.1f}"
    where += f", Python {versions['python']}, llvmlite {versions['llvmlite']}"
    lines = [
        f"{where}. The process `pipec compile examples/gemm.pipe`: {1000 * whole:.0f} ms.",
        "",
        *_head("example", "in process", *_STAGES, "of the proof: reading", "searching", "checking"),
    ]
    for name in ("gemm", "attention", "gemm_2cta_persistent", "attention_sm90"):
        row = figures if name == "gemm" else figures[name]
        stages = row["stage_seconds"]
        times = [row["in_process_seconds"]["processor"]["median"], *(stages[stage] for stage in _STAGES)]
        times += [stages["proof"][part] for part in ("read", "search", "check")]
        lines.append(_row(name, *(f"{1000 * one:.1f}" for one in times)))
    return lines


def simulating(record: Record) -> list[str]:
    """Seconds of processor time of launches in two versions of the simulator."""
    machine, rows = record["machine"], record["figures"]["seconds"]
    where = f"{record['date'][:10]}, {machine['processor']} with {machine['cores']} cores, load {machine['load']:.1f}"
    lines = [
        f"{where}; beside commit {record['figures']['before']}.",
        "",
        *_head("launch", "all in Python", "now", "times as fast"),
    ]
    for name, row in rows.items():
        lines.append(_row(name, f"{row['before']:.3g}", f"{row['now']:.3g}", f"{row['times as fast']:.1f}"))
    return lines


_GROUPS = {
    "one_multiprocessor_b200": "B200",
    "gemm_h200_gemm": "H200, newer record",
    "gemm_h200": "H200, older record",
    "gemm_h200_tiles": "H200, third record",
    "attention_h200": "H200, attention",
    "others_h200_tiles": "H200, third record",
}
_ONCE = {"copies_h200": "H200, copies by TMA"}


def predicted(record: Record) -> list[str]:
    """How far predictions are from measurements."""
    lines = _head("", "rows", "median", "p90", "largest", "with its sign")
    for group, title in _GROUPS.items():
        found = record["figures"][group]
        lines += (
            _errors(f"{title}, {name}", row)
            for name, row in found.get("errors_of_good_tiles", found.get("errors", found)).items()
        )
    return lines + [_errors(title, record["figures"][name]) for name, title in _ONCE.items()]


def _errors(name: str, row: Record) -> str:
    return _row(name, row["rows"], *(f"{row[key]:.1%}" for key in ("median", "p90", "largest")), f"{row['bias']:+.1%}")


def ladders(record: Record) -> list[str]:
    """TFLOP/s as they are predicted, step by step."""
    lines = _head("published series, the slowest first", "predicted TFLOP/s", "in its order")
    for name, row in record["figures"]["ladders_b200"].items():
        lines.append(_row(name, ", ".join(map(str, row["teraflops"])), "yes" if row["in_order"] else "no"))
    return lines


TABLES: dict[str, tuple[str, Callable[[Record], list[str]]]] = {
    "gemm-summary": ("h200_overlap", gemm_summary),
    "gemm": ("h200_overlap", gemm),
    "gemm-choice": ("gemm_choice", gemm_choice),
    "gemm-chosen": ("h200_choice", chosen_then),
    "gemm-fresh": ("h200_overlap", fresh),
    "split-k": ("h200_split_k", split_k),
    "epilogue": ("h200_epilogue", epilogue),
    "blockwise": ("h200_blockwise", blockwise),
    "grouped": ("h200_grouped", grouped),
    "attention": ("h200_attention", attention),
    "attention-backward": ("h200_attention_backward", attention),
    "decode": ("h200_decode", decode),
    "copying": ("copy_tma", copying),
    "memory-summary": ("h200_memory", memory_summary),
    "memory": ("h200_memory", memory),
    "compiling": ("compile", compiling),
    "simulating": ("sim_versions", simulating),
    "predicted": ("predict", predicted),
    "ladders": ("predict", ladders),
}


# -------------------------------------------------------------------------------------------------------------- documents


def rendered(name: str, results: Path = RESULTS) -> str:
    """A table as it must stand in a document. Raises KeyError for a name that is none."""
    file, table = TABLES[name]
    path = results / f"{file}.json"
    if not path.exists():
        return f"Not measured yet: there is no benchmarks/results/{file}.json.\n"
    return "\n".join(table(json.loads(path.read_text(encoding="utf-8")))) + "\n"


def filled(text: str, results: Path = RESULTS) -> str:
    """A document with its tables as the results have them."""
    return _BLOCK.sub(lambda found: found[1] + rendered(found["name"], results) + found[3], text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name in DOCUMENTS:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        if (wanted := filled(text)) == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(wanted, encoding="utf-8")
    print("\n".join(f"{'stale' if check else 'written'}: {name}" for name in stale) or "every table is what the results say")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
