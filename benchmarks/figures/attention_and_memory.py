"""Tables of attention and of kernels that are bound by memory."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.figures.text import Record, geomean, head, row_of


def attention(record: Record) -> list[str]:
    """Against cuDNN, with the fastest tile. Ratios within rounds where the record has them."""
    rounds = any("to cudnn" in one for row in record["figures"].values() for one in row.values())
    lines = [] if rounds else ["Measured with the contenders in one fixed order, so with an error of a few per cent:", ""]
    lines += head("head size", "mask", "sequence", "cuDNN", "FlashAttention-2", "pipec", "pipec / cuDNN")
    for name, row in record["figures"].items():
        size, mask, length = name.split()
        speeds = {which: one["teraflops"] for which, one in row.items() if "teraflops" in one}
        ours = max((which for which in speeds if which.startswith("pipec")), key=speeds.__getitem__)
        ratio = row[ours]["to cudnn"]["median"] if rounds else speeds[ours] / speeds["cudnn"]
        with_mask = "with" if mask == "causal" else "without"
        cells = (f"{speeds['cudnn']:.0f} TFLOP/s", f"{speeds['flash']:.0f}", f"{speeds[ours]:.0f}", f"{ratio:.2f}")
        lines.append(row_of(size, with_mask, length, *cells))
    return lines


def decode(record: Record) -> list[str]:
    """The fastest tile beside what torch has; the ratio is to the fastest of it, within rounds."""
    lines = head("", "cuDNN", "FlashAttention-2", "pipec", "GB/s", "to the fastest rival", "tile")
    for name, row in record["figures"].items():
        times = {which: one["microseconds"] for which, one in row.items() if "microseconds" in one}
        ours = min((which for which in times if which.startswith("pipec")), key=times.__getitem__)
        ratio, tile = row[ours]["to the fastest rival"]["median"], ours.removeprefix("pipec ")
        cells = (f"{times['cudnn']:.1f} us", f"{times['flash']:.1f}", f"{times[ours]:.1f}")
        lines.append(row_of(name, *cells, f"{row[ours]['gigabytes_per_second']:.0f}", f"{ratio:.2f}", tile))
    return lines


def copying(record: Record) -> list[str]:
    """Against the faster of torch's copy and the driver's."""
    lines = head("M x N", "driver", "pipec", "ratio")
    for shape, row in record["figures"].items():
        speeds = {
            name: one["gigabytes_per_second"] for name, one in row.items() if isinstance(one, dict) and "microseconds" in one
        }
        ours = max(speed for name, speed in speeds.items() if name.startswith("pipec"))
        theirs = max(speed for name, speed in speeds.items() if not name.startswith("pipec"))
        lines.append(row_of(shape.replace("x", " x "), f"{theirs:.0f} GB/s", f"{ours:.0f}", f"{ours / theirs:.2f}"))
    return lines


_SERIAL = ("torch", "torch.compile", "triton")  # rivals whose launches run one after the other
_RIVALS = (*_SERIAL, "triton.overlapped")

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
    lines += head(
        "operation",
        "torch",
        "torch.compile",
        "Triton, tuned",
        "Triton, launches that overlap",
        "the fastest of them",
        "none overlaps: the fastest",
    )
    for operation, words in _MEMORY.items():
        measured = [row["columns"] for name, row in record["figures"].items() if name.split()[0] == operation]
        rows = [columns["pipec"]["to"] for columns in measured]
        ratios = [[row[rival]["median"] for row in rows if rival in row] for rival in _RIVALS]
        ratios.append([_to_fastest(row, _RIVALS)["median"] for row in rows])
        ratios.append([_to_fastest(columns["pipec.serial"]["to"], _SERIAL)["median"] for columns in measured])
        lines.append(row_of(words, *(f"{geomean(found):.2f} ({min(found):.2f})" for found in ratios)))
    return lines


def _to_fastest(ratios: Mapping[str, Any], rivals: Sequence[str]) -> Any:
    return min((ratios[rival] for rival in rivals if rival in ratios), key=lambda one: one["median"])


def layer_norm_backward(record: Record) -> list[str]:
    """All gradients; ratios within rounds."""
    lines = [f"{record['date'][:10]}, {record['gpu']}, torch {record['torch']}.", ""]
    lines += head("rows x columns", "torch", "torch.compile", "pipec", "pipec / torch", "pipec / torch.compile", "tile")
    for shape, row in record["figures"].items():
        ours, compiled = row["pipec"], row.get("compiled")
        cells = [f"{row['torch']['microseconds']:.1f} us", f"{compiled['microseconds']:.1f}" if compiled else "-"]
        cells += [f"{ours['microseconds']:.1f} ({ours['terabytes_per_second']:.1f} TB/s)", f"{ours['to torch']['median']:.2f}"]
        cells += [f"{ours['to torch']['median'] / compiled['to torch']['median']:.2f}" if compiled else "-"]
        lines.append(row_of(shape.replace("x", " x "), *cells, ours["name"].removeprefix("pipec ")))
    return lines


def memory(record: Record) -> list[str]:
    """Every operation, shape and type."""
    lines = head(
        "operation",
        "rows x columns",
        "type",
        "torch",
        "torch.compile",
        "Triton",
        "Triton, overlapping",
        "pipec",
        "to the fastest rival",
        "none overlaps",
        "tile",
    )
    for name, row in record["figures"].items():
        operation, shape, kind = name.split()
        columns = row["columns"]
        ours = columns["pipec"]
        speeds = (f"{columns[rival]['gigabytes_per_second']:.0f}" if rival in columns else "-" for rival in _RIVALS)
        ratio, serial = _to_fastest(ours["to"], _RIVALS), _to_fastest(columns["pipec.serial"]["to"], _SERIAL)
        interval = f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
        cells = (*speeds, f"{ours['gigabytes_per_second']:.0f} GB/s", interval, f"{serial['median']:.2f}")
        tile = ours["name"].partition(" ")[2].partition(" ")[2]
        lines.append(row_of(operation, shape.replace("x", " x "), kind, *cells, tile))
    return lines
