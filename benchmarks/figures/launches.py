"""What a launch costs the host, and a model in eager mode."""

from benchmarks.figures.text import Record, head, row_of

_HOW = ("same tensors", "fresh output", "fresh tensors", "shapes in turn")
_LAUNCHED = {
    "pipec, three tensor maps": "pipec, three tensor maps",
    "pipec, two tensor maps, six arguments": "pipec, two tensor maps, six arguments",
    "Triton, three pointers": "Triton {triton}, three pointers",
    "Triton, three tensor descriptors": "Triton {triton}, three tensor descriptors, made in the call",
    "torch.add(out=)": "`torch.add(out=)`",
}


def launching(record: Record) -> list[str]:
    """Microseconds of the host per launch."""
    lines = [f"{record['date'][:10]}, {record['gpu']}, torch {record['torch']}; median of the rounds, in microseconds:", ""]
    lines += head("", *_HOW)
    for name, words in _LAUNCHED.items():
        times = (f"{record['microseconds'][f'{name}; {how}']['median']:.1f}" for how in _HOW)
        lines.append(row_of(words.format(triton=record["triton"]), *times))
    ours, theirs = (record["microseconds"][name]["median"] for name in ("an operator of pipec.torch", "torch.add"))
    return [
        *lines,
        "",
        f"An operator of `pipec.torch` that returns a new tensor takes {ours:.1f} us, `torch.add` {theirs:.1f} us.",
    ]


def llama(record: Record) -> list[str]:
    """A small Llama by pipec's operators: time relative to torch's own."""
    figures = record["figures"]
    lines = [f"{record['date'][:10]}, {figures['gpu']}; median of {figures['rounds']} shuffled rounds:", ""]
    lines += head("tokens", "eager", "in a CUDA graph", "peak memory")
    for name, row in figures.items():
        if name.endswith(" tokens"):
            ratios, memory = row["pipec_over_torch"], row["peak_bytes"]
            cells = (f"{ratios['eager']:.2f}", f"{ratios['graph']:.2f}", f"{memory['pipec'] / memory['torch']:.2f}")
            lines.append(row_of(f"{int(name.removesuffix(' tokens')):,}", *cells))
    return lines
