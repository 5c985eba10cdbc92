"""Tables of what compiling, simulating and predicting cost and say."""

from statistics import median

from benchmarks.figures.text import Record, head, row_of

_STAGES = ("parse", "analyse", "build", "check", "plan", "limits", "lower", "emit", "prove")


def compiling(record: Record) -> list[str]:
    """Milliseconds of processor time, stage by stage."""
    figures, machine, versions = record["figures"], record["machine"], record["versions"]
    whole = figures["whole_process_seconds"]["processor"]["median"]
    where = f"{record['date'][:10]}, {machine['processor']} with {machine['cores']} cores, load {machine['load']:.1f}"
    where += f", Python {versions['python']}, llvmlite {versions['llvmlite']}"
    lines = [
        f"{where}. The process `pipec compile examples/gemm.pipe`: {1000 * whole:.0f} ms.",
        "",
        *head("example", "in process", *_STAGES, "of the proof: reading", "searching", "checking"),
    ]
    for name in ("gemm", "attention", "gemm_2cta_persistent", "attention_sm90"):
        row = figures if name == "gemm" else figures[name]
        stages = row["stage_seconds"]
        times = [row["in_process_seconds"]["processor"]["median"], *(stages[stage] for stage in _STAGES)]
        times += [stages["proof"][part] for part in ("read", "search", "check")]
        lines.append(row_of(name, *(f"{1000 * one:.1f}" for one in times)))
    return lines


def simulating(record: Record) -> list[str]:
    """Seconds of processor time of launches in two versions of the simulator."""
    machine, rows = record["machine"], record["figures"]["seconds"]
    where = f"{record['date'][:10]}, {machine['processor']} with {machine['cores']} cores, load {machine['load']:.1f}"
    lines = [
        f"{where}; beside commit {record['figures']['before']}.",
        "",
        *head("launch", "all in Python", "now", "times as fast"),
    ]
    for name, row in rows.items():
        lines.append(row_of(name, f"{row['before']:.3g}", f"{row['now']:.3g}", f"{row['times as fast']:.1f}"))
    return lines


_GROUPS = {
    "one_multiprocessor_b200": "B200",
    "gemm_h200_gemm": "H200, newer record",
    "gemm_h200": "H200, older record",
    "gemm_h200_tiles": "H200, third record",
    "attention_h200": "H200, attention",
    "blockwise_h200": "H200, products with scales by blocks",
    "others_h200_tiles": "H200, third record",
}

_ONCE = {"copies_h200": "H200, copies by TMA"}


def predicted(record: Record) -> list[str]:
    """How far predictions are from measurements."""
    lines = head("", "rows", "median", "p90", "largest", "with its sign")
    for group, title in _GROUPS.items():
        found = record["figures"][group]
        lines += (
            _errors(f"{title}, {name}", row)
            for name, row in found.get("errors_of_good_tiles", found.get("errors", found)).items()
        )
    return lines + [_errors(title, record["figures"][name]) for name, title in _ONCE.items()]


def _errors(name: str, row: Record) -> str:
    return row_of(name, row["rows"], *(f"{row[key]:.1%}" for key in ("median", "p90", "largest")), f"{row['bias']:+.1%}")


def cycles(record: Record) -> list[str]:
    """What multiprocessors note, beside what is predicted."""
    lines = head("", "tiles", "cycles", "in absolute terms", "clock")
    for name, row in record["figures"]["cycles_h200"].items():
        clock = f"{row['clock']:+.1%}" if "clock" in row else ""
        lines.append(row_of(name.replace("x", " x "), row["tiles"], f"{row['cycles']:+.1%}", f"{row['absolute']:.1%}", clock))
    return lines


def ladders(record: Record) -> list[str]:
    """TFLOP/s as they are predicted, step by step."""
    lines = head("published series, the slowest first", "predicted TFLOP/s", "in its order")
    for name, row in record["figures"]["ladders_b200"].items():
        lines.append(row_of(name, ", ".join(map(str, row["teraflops"])), "yes" if row["in_order"] else "no"))
    return lines


_RECORDS = {
    "h200_gemm": "the newer record, {} shapes left out",
    "h200": "the older record, {} shapes left out",
    "h200_tiles": "the third record, {} shapes",
    "h200_choice": "`h200_choice.json`, {} shapes left out",
    "h200_overlap": "`h200_overlap.json`, {} shapes left out",
    "h200_fresh": "`h200_fresh.json`, {} shapes, the 40 candidates ranked first",
    "h200_drawn": "`h200_drawn.json`, {} shapes drawn by chance, the 40 candidates ranked first",
    "h200_random": "`h200_random.json`, {} drawn evenly in their logarithms, likewise",
    "h200_mixed": "`h200_mixed.json`, {} drawn when the model was as it is, likewise",
}


def choices(record: Record) -> list[str]:
    """What it costs to take the tile that is predicted to be fastest."""
    lines = head(
        "judged on",
        "error of good tiles, median",
        "a choice among all: geometric mean, worst",
        "among a dozen: geometric mean, 99th percentile, worst",
    )
    for name, title in _RECORDS.items():
        row = record["figures"]["choices_h200"][name]
        lines.append(
            row_of(
                title.format(row["shapes"]),
                f"{row['error_of_good_tiles']:.1%}",
                f"{row['regret_of_all']:.3f}, {row['worst_of_all']:.2f}",
                f"{row['regret_of_a_dozen']:.3f}, {row['p99_of_a_dozen']:.2f}, {row['worst_of_a_dozen']:.2f}",
            )
        )
    return lines


def foreign(record: Record) -> list[str]:
    """Kernels of Triton: how far predictions are from times, at the model's clock and at the one that was read."""
    lines = head("kernels", "rows", "median", "p90", "largest", "with its sign", "median at the clock that was read")
    groups: dict[str, list[Record]] = {}
    for name, row in record["kernels"].items():
        if "predicted" in row:
            groups.setdefault("all", []).append(row)
            groups.setdefault(_kind(name), []).append(row)
    for kind, rows in sorted(groups.items(), key=lambda item: (item[0] == "all", item[0])):
        ratios = [row["predicted"] / row["seconds"] - 1 for row in rows]
        errors = sorted(map(abs, ratios))
        at_clock = median(abs(row["predicted_at_clock"] / row["seconds"] - 1) for row in rows)
        shown = (median(errors), errors[min(len(errors) - 1, int(0.9 * len(errors)))], errors[-1])
        lines.append(row_of(kind, len(rows), *(f"{one:.1%}" for one in shown), f"{median(ratios):+.1%}", f"{at_clock:.1%}"))
    return lines


_SMALL = 64  # rows of a product below which Triton takes mma.sync


def _kind(name: str) -> str:
    function, *rest = name.split()
    if function == "matmul" and int(rest[0].partition("x")[0]) < _SMALL:
        return "matmul, `cp.async` and `mma.sync`"
    return {
        "matmul": "matmul, `cp.async` and `wgmma`",
        "matmul_tma": "matmul, TMA",
        "matmul_persistent": "matmul, TMA, persistent",
        "attention": "attention, causal" if "causal" in rest else "attention",
        "softmax": "softmax, layer norm, RMS norm",
        "layer_norm": "softmax, layer norm, RMS norm",
        "rms_norm": "softmax, layer norm, RMS norm",
        "add": "sums of vectors",
    }[function]
