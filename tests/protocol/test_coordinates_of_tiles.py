"""Groups of rows whose numbers are in memory, and tiles taken apart by them: where a tile lies decides which elements are stored, and not
how often anybody waits, so that nothing is asked of the arithmetic for it."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source
from pipec.verify.network import Network, Unreadable, edges_of
from pipec.verify.reader.read import read
from pipec.verify.reader.values.interpretation import Interpretation
from pipec.verify.terms import Formula

KERNEL = """
kernel k(a: tensor[bf16, M, K], begins: tensor[i32, ENDS], scales: tensor[f32, GROUPS], d: tensor[bf16, M, N]):
    grid(5)
    cols = ceildiv(N, 64)
    p = InputTilePipeline(TilePayload(a=tile[bf16, 64, 64]), stages=2)
    role fill(warps=1) produces p:
        t = block.x
        end = 0
        for g in range(GROUPS):
            first = load(begins[g])
            rows = load(begins[g + 1]) - first
            high = (rows + 63) // 64
            count = high * cols
            while t < end + count:
                rest = t - end
{place}
                for k in range(ceildiv(K, 64)):
                    with p.produce() as s:
                        tma.load(s.a, a[first + r * 64, k * 64])
                t += grid.x
            end += count
    role take(warps=4) consumes p:
        t = block.x
        end = 0
        for g in range(GROUPS):
            first = load(begins[g])
            rows = load(begins[g + 1]) - first
            high = (rows + 63) // 64
            count = high * cols
            while t < end + count:
                rest = t - end
{place}
                total = registers(fill(0.0, f32, 64, 64))
                for k in range(ceildiv(K, 64)):
                    with p.consume() as s:
                        total = total + cast[f32](s.a)
                {store}
                t += grid.x
            end += count
"""
STORE = "store(d[first + r * 64, c * 64], cast[bf16](total), rows=rows - r * 64)"
PLACES = {
    "columns outside": "c = rest // high\nr = rest % high",
    "what is left": "c = rest // high\nr = rest - c * high",
    "strips": "width = 4 * cols\nstrip = rest // width\nstrip_high = min(high - strip * 4, 4)\n"
    "r = strip * 4 + rest % width % strip_high\nc = rest % width // strip_high",
}


def text_of(place: str, store: str = STORE) -> str:
    return KERNEL.format(place="\n".join(" " * 16 + line for line in place.split("\n")), store=store)


def ptx_of(text: str) -> str:
    ptx = compile_source(Source("k.pipe", text), Options("sm_90a", unchecked=True)).ptx
    assert ptx is not None
    return ptx


def divided(network: Network) -> list[Formula]:
    """What is required of quotients by what is not constant, as by rows of tiles."""
    edges = [edge for process in network.processes for state in process.states for edge in edges_of(state.action)]
    return [one for edge in edges for one in edge.requires if "div.s32" in repr(one)]


@pytest.mark.parametrize("place", PLACES)
def test_it_is_proved(place: str) -> None:
    state = compile_source(Source("k.pipe", text_of(PLACES[place])), Options("sm_90a"))
    assert not state.failed, state.diagnostics
    assert "arithmetic on numbers in memory" in state.protocol["k"].sentence


def test_its_neighbour_is_not() -> None:
    """One row of tiles more in one role."""
    text = text_of(PLACES["columns outside"]).replace("high = (rows + 63) // 64", "high = (rows + 64) // 64", 1)
    assert compile_source(Source("k.pipe", text), Options("sm_90a")).failed


def test_nothing_is_required_of_where_a_tile_lies() -> None:
    ptx = ptx_of(text_of(PLACES["columns outside"]))
    assert not divided(read(ptx, how=Interpretation(fitting=True)))


def test_it_is_where_that_decides_something() -> None:
    more = ("for k in range(min(r, 3)):", "    with p.consume() as s:", "        total = total + cast[f32](s.a)", STORE)
    text = text_of(PLACES["columns outside"], f"\n{' ' * 16}".join(more))
    assert divided(read(ptx_of(text), how=Interpretation(fitting=True)))


def test_threads_that_part_there_are_not_taken_for_together() -> None:
    """`x + t >= t` is the same in all threads unless the sum wraps around, and in front of a barrier all have to go the same way."""
    lines = ptx_of(text_of(PLACES["columns outside"])).splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip().startswith("bar.sync \t1") or "bar.sync \t1," in line)
    test = max(number for number in range(at) if "setp.lt.s32" in lines[number])
    words = lines[test].replace(",", " ").split()
    parted = [f"\tadd.s32 {words[2]}, {words[2]}, %tid.x;", f"\tsetp.ge.s32 {words[1]}, {words[2]}, %tid.x;"]
    with pytest.raises(Unreadable):
        read("\n".join([*lines[:test], *parted, *lines[test + 1 :]]), how=Interpretation(fitting=True))
