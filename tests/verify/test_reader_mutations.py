"""A change to any barrier instruction changes what the reader says, or makes the kernel unreadable."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from samples import volume

from pipec.record import replace
from pipec.verify.network import Network, Unreadable
from pipec.verify.reader.read import read

GOLDEN = Path(__file__).parents[1] / "golden"
# Meetings of a warp that is one process, and of a role with itself, are no part of a network.
BARRIER = re.compile(
    r"^\s+(@!?\S+\s+)?(mbarrier\.|tcgen05\.commit|cp\.async\.bulk\.tensor\S*complete_tx|clusterlaunchcontrol\.try|barrier\.cluster"
    r"|cp\.async\.mbarrier|bar\.sync\s+0;)"
)
EXAMPLES = ("gemm", "gemm_peek", "gemm_sm90", "gemm_2cta", "rms_norm_cluster", "elementwise", "gemm_clc")
ENTRY = re.compile(r"\.entry (\w+)")


def mutants(line: str) -> Iterator[tuple[str, str]]:
    """Wrong versions of a barrier instruction."""
    yield "removed", ""
    if "try_wait" not in line and "mbarrier.init" not in line:
        # Who waits twice for one phase waits once; a barrier made ready twice by one thread is what it was.
        yield "twice", f"{line}\n{line}"
    if address := re.search(r"\[(%r\d+|\$shared|remote)(\+(\d+))?\](?=[^\[]*$)", line):
        moved = int(address[3] or 0) + 8
        yield "moved to the next barrier", f"{line[: address.start()]}[{address[1]}+{moved}]{line[address.end() :]}"
    if parity := re.search(r"try_wait.*, (%r\d+);", line):
        yield "other parity", f"\txor.b32 \t{parity[1]}, {parity[1]}, 1;\n{line}\n"
    if count := re.search(r"mbarrier\.(?:arrive|init).*, (%r\d+);", line):
        yield "other count or bytes", f"{line[: count.start(1)]}48{line[count.end(1) :]}"
    if "@" in line and "[remote]" not in line:
        # (A signal to another CTA by all threads has a predicate that is always true.)
        yield "always", line.replace(re.search(r"@!?\S+\s+", line)[0], "")  # type: ignore[index]
    if "@" in line:
        yield "turned", line.replace("@!", "@") if "@!" in line else line.replace("@", "@!")


def plain(network: Network) -> Network:
    """Without line numbers."""
    processes = [replace(one, states=tuple(replace(state, line=0) for state in one.states)) for one in network.processes]
    return replace(network, processes=tuple(processes), assumptions=())


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_change_is_seen(example: str) -> None:
    text = (GOLDEN / f"{example}.ptx").read_text()
    name = ENTRY.search(text)[1]  # type: ignore[index]
    # Other kernels of the file are no matter.
    end = text.find("\n}", text.index(".entry"))
    text = text[: end + 2]
    network = plain(read(text, name))
    lines = text.split("\n")
    survivors, tried = [], 0
    for number, line in enumerate(lines):
        if not BARRIER.match(line) or line.startswith("//"):
            continue
        for what, instead in mutants(line):
            tried += 1
            if example != "gemm" and tried % volume(8, 3):
                continue  # a sample
            try:
                changed = plain(read("\n".join([*lines[:number], instead, *lines[number + 1 :]]), name))
            except Unreadable:
                continue
            if changed == network:
                survivors.append((number + 1, what, line.strip()))
    assert tried > 20
    assert survivors == []
