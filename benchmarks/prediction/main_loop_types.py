"""The main loops of the B200 table with other operand types: every row as a kernel of the language, and its predicted time.

    python benchmarks/prediction/main_loop_types.py [--rows FILE] [--every N]

Rows of other types have not been published beside those in BF16. Each row of the table in benchmarks/data is therefore taken over with
as many bytes of K in a stage, and a kernel is written for it, compiled and predicted, in every type that the tensor cores have an
instruction for at that shape. `--rows` names a table with the same columns; its `dtype` says which type a row has, and its times are
compared. The instructions' intervals that the model has are compared with those that were measured by themselves (`--intervals FILE`, the
throughput table of the same source). Nothing here is fitted to.
"""

import argparse
import csv
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.prediction.predict import DATA, MAIN_LOOP, MOST_STAGES, SHARED_BYTES, SWEEP_CLOCK
from pipec.driver import Options, compile_source
from pipec.predict.device import DEVICES
from pipec.predict.launch import Launch, Prediction
from pipec.source import Source

SCALED = """
kernel gemm[AB: dtype, SF: dtype, BM: int, BN: int, BK: int, BLOCK: int, STAGES: int](
    a: tensor[AB, M, K], b: tensor[AB, N, K], sfa: tensor[SF, M_CHUNKS, K_CHUNKS, 512], sfb: tensor[SF, N_CHUNKS, K_CHUNKS, 512],
    d: tensor[f32, M, N],
):
    grid(ceildiv(M, BM), ceildiv(N, BN))
    comptime BLOCKS = BK // BLOCK
    input  = InputTilePipeline(
        BlockScaledTilePayload(
            a=tile[AB, BM, BK], b=tile[AB, BN, BK], sfa=tile[SF, BM, BLOCKS], sfb=tile[SF, ceildiv(BN, 128) * 128, BLOCKS],
        ),
        stages=STAGES,
    )
    output = OutputTilePipeline(tmem[f32, BM, BN], stages=1)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, BK)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * BM, k * BK])
                tma.load(s.b, b[block.y * BN, k * BK])
                tma.load(s.sfa, sfa[block.x, k * (BLOCKS // 4), 0])
                tma.load(s.sfb, sfb[block.y * ceildiv(BN, 128), k * (BLOCKS // 4), 0])
    role mma(warps=1) consumes input produces output:
        with output.produce() as acc:
            for k in range(ceildiv(K, BK)):
                with input.consume() as s:
                    mma(acc, s.a, s.b, s.sfa, s.sfb)
    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[block.x * BM, block.y * BN], acc)
"""


@dataclass(frozen=True, slots=True)
class Type:
    """`least`: elements of K in one instruction; `block`: elements that share a factor, of type `factors`; `sum`: of the accumulator."""

    bits: int
    least: int
    element: str
    factors: str = ""
    block: int = 0
    sum: str = "f32"


TYPES: Mapping[str, Type] = {
    "BF16": Type(16, 16, "bf16"),
    "FP16": Type(16, 16, "f16"),
    "TF32": Type(32, 8, "tf32"),
    "FP8": Type(8, 32, "e4m3"),
    "INT8": Type(8, 32, "i8", sum="i32"),
    "MXFP8": Type(8, 32, "e4m3", "ue8m0", 32),
    "NVFP4": Type(4, 64, "e2m1", "ue4m3", 16),
}
_CHUNK = 4  # factors of a row that lie together in memory
_SCALED_ROWS = 128  # block-scaled MMAs of one CTA have no other height (PTX ISA, tcgen05.mma kinds)


@dataclass(frozen=True, slots=True)
class Row:
    type: str
    m: int
    n: int
    k: int
    block: int  # of K, in elements
    stages: int  # 0: as many as fit
    seconds: float

    @property
    def stage_bytes(self) -> int:
        of = TYPES[self.type]
        factors = (self.m + -(-self.n // 128) * 128) * self.block // of.block if of.block else 0
        return (self.m + self.n) * self.block * of.bits // 8 + factors + 16


def rows_of(path: Path) -> Iterator[Row]:
    lines = (line for line in path.read_text().splitlines() if not line.startswith("#"))
    for row in csv.DictReader(lines):
        tile = (int(row[f"TILE_{axis}"]) for axis in "MNK")
        yield Row(
            row["dtype"],
            int(row["TILE_M"]),
            int(row["TILE_N"]),
            int(row["K"]),
            [*tile][2],
            int(row["STAGES"]),
            float(row["time_ms"]) / 1e3,
        )


def has_instruction(row: Row) -> bool:
    """Whether an instruction multiplies such tiles, and a TMA box brings their factors."""
    of = TYPES[row.type]
    if row.block % of.least:
        return False
    return not of.block or (row.m == _SCALED_ROWS and row.n % 8 == 0 and row.block % (_CHUNK * of.block) == 0)


def with_type(row: Row, name: str) -> Row:
    """As many bytes of K in a stage, of another type."""
    factor = TYPES[row.type].bits / TYPES[name].bits
    return Row(name, row.m, row.n, int(row.k * factor), int(row.block * factor), row.stages, 0.0)


def predicted(row: Row) -> Prediction:
    of, stages = TYPES[row.type], row.stages or min(MOST_STAGES, SHARED_BYTES // row.stage_bytes)
    constants: dict[str, object] = {"BM": row.m, "BN": row.n, "BK": row.block, "STAGES": stages}
    sizes = {"M": row.m, "N": row.n, "K": row.k}
    if of.block:
        text, more = SCALED, {"AB": of.element, "SF": of.factors, "BLOCK": of.block}
        sizes |= {"M_CHUNKS": 1, "N_CHUNKS": -(-row.n // 128), "K_CHUNKS": row.k // of.block // _CHUNK}
    else:
        text, more = MAIN_LOOP.replace("gemm[", "gemm[AB: dtype, ").replace("[bf16,", "[AB,"), {"AB": of.element}
        text = text.replace("tmem[f32,", f"tmem[{of.sum},").replace("d: tensor[f32,", f"d: tensor[{of.sum},")
    state = compile_source(Source("main_loop.pipe", text), Options(constants=constants | more), "plan")
    if state.trees is None or state.plans is None:
        raise ValueError(f"{row}: " + "; ".join(one.title for one in state.diagnostics))
    return Launch(state.trees[0], state.plans[0], sizes, DEVICES["b200"], SWEEP_CLOCK).predict()


def intervals(path: Path) -> dict[str, list[float]]:
    """Relative errors of the intervals that the model takes, by format."""
    found: dict[str, list[float]] = defaultdict(list)
    device = DEVICES["b200"]
    for row in csv.DictReader(path.read_text().splitlines()):
        group, m, n = int(row["CTAGroup"]), int(row["M"]), int(row["N"])
        cycles = device.interval(m // group, n, group, row["ABLayout"] == "TS") - (
            0.0 if row["Format"] == "BF16" else device.narrow
        )
        found[row["Format"]].append(cycles / float(row["CyclesPerMMA"]) - 1)
    return found


def said(name: str, errors: list[float]) -> str:
    ordered = sorted(map(abs, errors))
    p90 = ordered[int(0.9 * (len(ordered) - 1))]
    return f"{name:6} {len(ordered):4} rows: median {statistics.median(ordered):.2%}, p90 {p90:.2%}, largest {ordered[-1]:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=Path, help="a table with times of other types")
    parser.add_argument("--intervals", type=Path, help="mma_throughput.csv")
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    if options.rows:
        errors: dict[str, list[float]] = defaultdict(list)
        for row in list(rows_of(options.rows))[:: options.every]:
            errors[row.type].append(predicted(row).seconds / row.seconds - 1)
        print(*(said(name, found) for name, found in errors.items()), sep="\n")
        return
    for name in TYPES:
        table = [with_type(row, name) for row in rows_of(DATA / "b200_main_loop_bf16.csv")]
        kernels = [row for row in table if has_instruction(row)]
        for row in kernels[:: options.every]:
            predicted(row)
        print(
            f"{name:6} {len(kernels)} of {len(table)} rows have an instruction; each of {len(kernels[:: options.every])} has a time"
        )
    if options.intervals:
        print(*(said(name, found) for name, found in intervals(options.intervals).items()), sep="\n")


if __name__ == "__main__":
    main()
