"""Tables of GEMM, and of the choice among its tiles."""

import re
from collections.abc import Mapping, Sequence

from benchmarks.figures.text import Record, geomean, head, row_of, where
from benchmarks.gemm.gemm_shapes import GROUPS

_OURS = ("default", "automatic", "best", "chosen", "any", "serial")
_IN_SHORT = ("chosen", "any", "serial")


def gemm_short(record: Record) -> list[str]:
    """What a reader of the README asks first: the kernel that is chosen, and the fastest one."""
    return gemm_summary(record, _IN_SHORT)


def gemm_summary(record: Record, columns: Sequence[str] = _OURS) -> list[str]:
    """Geometric means of the ratios to tuned cuBLASLt, group by group."""
    present = [column for column in columns if any(column in row["columns"] for row in record["figures"].values())]
    lines = [f"{where(record)} Speed relative to tuned cuBLASLt, geometric mean (worst):", ""]
    lines += head("shapes", "how many", "torch.matmul", "Triton, tuned", *(f"pipec, {_TITLES[column]}" for column in present))
    for group, what in GROUPS.items():
        rows = [row for row in record["figures"].values() if row["group"] == group]
        if rows:
            lines.append(
                row_of(f"{group}: {what}", len(rows), *(_mean(rows, column) for column in ("torch", "triton", *present)))
            )
    return lines


_TITLES = {
    "default": "tile in the file",
    "automatic": "tile chosen",
    "best": "best tile",
    "chosen": "kernel chosen",
    "any": "best example",
    "serial": "best example, without overlap of launches",
}


def _mean(rows: list[Record], column: str) -> str:
    ratios = [row["columns"][column]["ratio"]["median"] for row in rows if "ratio" in row["columns"].get(column, {})]
    if not ratios:
        return "-"
    return f"{geomean(ratios):.2f} ({min(ratios):.2f})" + ("" if len(ratios) == len(rows) else f" of {len(ratios)}")


def gemm(record: Record) -> list[str]:
    """Every shape."""
    present = [column for column in _OURS if any(column in row["columns"] for row in record["figures"].values())]
    lines = [where(record), ""]
    lines += head(
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
            row_of(
                shape.replace("x", " x ").replace(":fp8", ", e4m3"),
                "-" if base is None else f"{base['teraflops']:.0f} TFLOP/s, {_microseconds(base)} us",
                "-" if "noise" not in row else f"{max(row['noise']['high'], 1 / row['noise']['low']) - 1:.1%}",
                *(_ratio(columns, column) for column in ("torch", "triton", *present)),
                best,
            )
        )
    return lines + [""] + [f"Shapes left out: {', '.join(record['left_out']) or 'none'}."]


def last_waves(record: Record) -> list[str]:
    """Shapes whose tiles leave a wave with little to do: what splitting that wave gives, by the times of the screening."""
    lines = [where(record), ""]
    lines += head(
        "M x N x K",
        "cuBLASLt, tuned",
        "persistent, 128 x 256",
        "stream-K, fastest tile",
        "fastest of the other examples",
        "stream-K / fastest other, in time",
        "best example / cuBLASLt, in speed",
    )
    for shape, row in record["figures"].items():
        columns, screened = row["columns"], row["screened"]["pipec"]["microseconds"]
        split = {name: time for name, time in screened.items() if name.startswith("pipec stream_k")}
        others = {name: time for name, time in screened.items() if name not in split}
        fastest = [min(one, key=one.__getitem__) for one in (split, others)]
        times = [screened[name] for name in (columns["default"]["name"], *fastest)]
        names = ["", *(name.removeprefix("pipec ") for name in fastest)]
        lines.append(
            row_of(
                shape.replace("x", " x "),
                f"{columns['cublaslt']['teraflops']:.0f} TFLOP/s",
                *(f"{time:.4g} us {name}".strip() for time, name in zip(times, names, strict=True)),
                f"{times[1] / times[2]:.2f}",
                f"{columns['any']['ratio']['median']:.2f}",
            )
        )
    return lines


def _microseconds(figures: Record) -> str:
    return f"{figures['microseconds']['median']:.4g}"


def _ratio(columns: Mapping[str, Record], column: str) -> str:
    ratio = columns.get(column, {}).get("ratio")
    return "-" if ratio is None else f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def fresh(record: Record) -> list[str]:
    """Calls whose output is another tensor each time."""
    lines = head("M x N x K", "torch", "Triton", *(f"pipec, {_TITLES[column]}" for column in _OURS[:3]))
    for shape, row in record["fresh"].items():
        figures = row["microseconds_per_call"]
        cells = (f"{figures[name]['median']:.4g} us" if name in figures else "-" for name in ("torch", "triton", *_OURS[:3]))
        lines.append(row_of(shape.replace("x", " x "), *cells))
    return lines


def split_k(record: Record) -> list[str]:
    """Examples with and without a split of K, each with its fastest tile."""
    lines = head("M x N x K", "cuBLAS", "pipec, no split", "pipec, split K in turns", "no split / split, in time")
    for shape, row in record["figures"].items():
        times = {name: one["microseconds"] for name, one in row.items() if isinstance(one, dict) and "microseconds" in one}
        split = min((name for name in times if "split_k" in name), key=times.__getitem__)
        whole = min((name for name in times if "persistent" in name), key=times.__getitem__)
        splits = re.search(r"SPLITS=(\d+)", split)
        assert splits is not None
        lines.append(
            row_of(
                shape.removesuffix(":split").replace("x", " x "),
                f"{times['cublas']:.1f} us",
                f"{times[whole]:.1f}",
                f"{times[split]:.1f} ({splits[1]} splits)",
                f"{times[whole] / times[split]:.2f}",
            )
        )
    return lines


def epilogue(record: Record) -> list[str]:
    """Microseconds, and each fused time beside the product alone; ratios within rounds."""
    lines = head(
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
        lines.append(row_of(shape.replace("x", " x "), *cells))
    return lines


def blockwise(record: Record) -> list[str]:
    """Times of the fastest of each side; ratios within rounds."""
    lines = [f"{record['date'][:10]}, {record['gpu']}, torch {record['torch']}, cuBLASLt {record['cublaslt']}.", ""]
    lines += head("M x N x K", "cuBLASLt", "torch", "pipec", "pipec / cuBLASLt", "tile of pipec")
    for shape, row in record["figures"].items():
        times = [f"{row[side]['microseconds']:.1f}" if side in row else "-" for side in ("cublaslt", "torch")]
        ours = row["pipec"]
        cells = f"{times[0]} us", times[1], f"{ours['microseconds']:.1f} ({ours['teraflops']:.0f} TFLOP/s)"
        ratio = f"{ours['to cublaslt']['median']:.2f}" if "to cublaslt" in ours else "-"
        lines.append(row_of(shape.removesuffix(":fp8").replace("x", " x "), *cells, ratio, ours["name"].removeprefix("pipec ")))
    return lines


def grouped(record: Record) -> list[str]:
    """Against torch's grouped product."""
    lines = [f"{record['date'][:10]}, {record['gpu']}, torch {record['torch']}.", ""]
    lines += head("rows x N x K", "rows of a group", "torch", "pipec", "pipec / torch", "tile of pipec")
    for shape, row in record["figures"].items():
        ours, theirs = row["pipec"], row.get("torch")
        size, _, groups = shape.partition(" in ")
        cells = [f"{size.replace('x', ' x ')}, {groups}", f"{row['rows']['least']} to {row['rows']['most']}"]
        cells += [f"{theirs['microseconds']:.1f} us" if theirs else "-", f"{ours['microseconds']:.1f}"]
        cells += [f"{ours['to torch']['median']:.2f}" if theirs else "-", ours["name"].removeprefix("pipec ")]
        lines.append(row_of(*cells))
    return lines


def gathered(record: Record) -> list[str]:
    """Speeds beside a copy of the rows and torch's grouped product."""
    sides = {"triton": "Triton", "index_select, pipec": "copy, pipec grouped", "pipec": "pipec gathered"}
    lines = [f"{record['date'][:10]}, {record['gpu']}, torch {record['torch']}. Speed relative to copy and torch:", ""]
    lines += head("rows x N x K", "tokens", "rows of a group", "copy, torch", *sides.values(), "tile of pipec gathered")
    for shape, row in record["figures"].items():
        size, _, rest = shape.partition(" in ")
        groups, _, tokens = rest.partition(", ")
        cells = [f"{size.replace('x', ' x ')}, {groups}", tokens.removesuffix(" tokens")]
        cells += [f"{row['rows']['least']} to {row['rows']['most']}", f"{row['torch']['microseconds']:.1f} us"]
        cells += [f"{row[side]['to torch']['median']:.2f}" if side in row else "-" for side in sides]
        lines.append(row_of(*cells, row["pipec"]["name"].removeprefix("pipec ")))
    return lines


def gemm_choice(record: Record) -> list[str]:
    """What the choice among kernels costs beside the best tile of each record, group by group."""
    lines = head(
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
            if not rows:  # a group that is younger than the record
                continue
            costs, judged = [row["cost_on_record"] for row in rows], [row["cost"] for row in rows if row["cost"] is not None]
            cells = (
                f"{geomean(row['best_ratio'] for row in rows):.2f}",
                f"{geomean(row['best_ratio'] / row['cost_on_record'] for row in rows):.2f}",
                f"{geomean(costs):.3f}, {max(costs):.2f}",
                f"at {len(judged)}: {geomean(judged):.3f}, {max(judged):.2f}" if judged else "nowhere",
            )
            lines.append(row_of(name, group, len(rows), *cells))
    return lines


def chosen_then(record: Record) -> list[str]:
    """What was measured of the choice among kernels, where it was a contender of its own."""
    lines = head(
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
        if not rows:
            continue
        names = ("automatic", "chosen", "dozen", "tuned", "any")
        ratios = {name: [row[name]["ratio"]["median"] for row in rows] for name in names}
        worst = max(best / chosen for best, chosen in zip(ratios["any"], ratios["chosen"], strict=True))
        lines.append(row_of(group, len(rows), *(f"{geomean(one):.2f}" for one in ratios.values()), f"{worst:.2f}"))
    return lines
