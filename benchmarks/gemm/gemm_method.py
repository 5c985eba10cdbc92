"""How benchmarks/gemm/h200.py compares: candidates of each contender are screened, the winners meet again in rounds of their own.

Nothing here knows a GPU: a `Field` offers candidates and a clock, on a real device (gemm_field.py) or pretended (gemm_dry.py).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from benchmarks.gemm.gemm_shapes import Shape
from pipec.tune.rounds import Clock, Patience, Rounds, Screening, Spread, compare, screen

Family = Literal["torch", "cublaslt", "triton", "pipec"]
FAMILIES: tuple[Family, ...] = ("torch", "cublaslt", "triton", "pipec")
# Columns of the result: what each of them is.
COLUMNS: dict[str, str] = {
    "torch": "torch.matmul: the first suggestion of cuBLAS's heuristic",
    "cublaslt": "the fastest of all algorithms that cuBLASLt's heuristic offers",
    "triton": "the fastest configuration of Triton's persistent matmul with tensor descriptors",
    "default": "pipec with the tile that stands in the file",
    "automatic": "pipec with the tile that its model chooses, nothing measured",
    "best": "pipec with the fastest tile of that kernel",
    "chosen": "pipec with the kernel and the tile that pipec.library.gemm chooses, nothing measured",
    "dozen": "pipec with the fastest of the dozen kernels and tiles that its model puts first in pipec.library.gemm",
    "tuned": "pipec with the fastest of those that `tune` of pipec.library.gemm measures",
    "any": "pipec with the fastest tile of any example",
    "serial": "the same, each launch behind the end of the one in front, as those of the others are (no programmatic dependent launch)",
}
BASE = "cublaslt"
_CLOSE = 8  # of a screening's first, which are screened on: they differ by less than the rounds so far can tell
_AGAIN = " (again)"  # the base has two turns in a round: the ratio of the two says what a ratio means nothing below


@dataclass(frozen=True, slots=True)
class Settings:
    rounds: int = 25
    seed: int = 0
    patience: Patience = field(default_factory=Patience)
    close: Patience = field(default_factory=lambda: Patience(behind=1.01, least=6, most=24))


class Field(Protocol):
    """One shape on one device, with everybody who can multiply it."""

    clock: Clock

    def candidates(self, family: Family) -> Sequence[str]:
        """Names of those that gave a right result, ready to be timed."""
        ...

    def failed(self) -> Mapping[str, str]:
        """Names of the others, and why."""
        ...

    def named(self) -> Mapping[str, str]:
        """Columns that are one candidate each, whatever is measured: "default", "automatic" and "chosen"."""
        ...

    def kernel(self, name: str) -> bool:
        """Whether a candidate is a tile of the kernel whose default, automatic and best tile are compared."""
        ...

    def among(self) -> Mapping[str, Collection[str]]:
        """Columns that are the fastest of some of the candidates: "dozen" and "tuned"."""
        ...

    def serial(self, name: str) -> str:
        """A further candidate: this one of pipec's without programmatic dependent launch."""
        ...

    def forget(self, names: Sequence[str]) -> None:
        """These are not timed again."""
        ...

    def facts(self) -> dict[str, Any]:
        """About the device and the buffers: what the L2 holds when a launch starts, clocks."""
        ...


def measure(shape: Shape, on: Field, settings: Settings) -> dict[str, Any]:
    """The record of one shape."""
    fixed = dict(on.named())
    screenings: dict[str, Any] = {}
    columns: dict[str, str] = {}
    for family in FAMILIES:
        names = on.candidates(family)
        if not names:
            continue
        seed = f"{settings.seed} {shape} {family}"
        found = screen(names, on.clock, settings.patience, seed)
        close = screen(found.ranking[:_CLOSE], on.clock, settings.close, f"{seed} close")
        columns |= _winners(family, (*close.ranking, *found.ranking[_CLOSE:]), on, fixed)
        screenings[family] = _screened(found) | {"close": _screened(close)}
        on.forget([name for name in names if name not in columns.values()])
    final = _final(columns, on.clock, settings, f"{settings.seed} {shape} final")
    record = {"group": shape.group, "kind": shape.kind} | on.facts()
    record["columns"] = {column: _column(shape, columns, column, final) for column in columns}
    if BASE in columns:
        record["noise"] = _spread(final.ratio(columns[BASE], columns[BASE] + _AGAIN))
    return record | {"rounds": _turns(final), "screened": screenings, "failed": dict(on.failed())}


def _winners(family: Family, ranked: Sequence[str], on: Field, fixed: Mapping[str, str]) -> dict[str, str]:
    if family != "pipec":
        return {family: ranked[0]}
    best = next((name for name in ranked if on.kernel(name)), None)
    chosen = {column: name for column, name in fixed.items() if name in ranked}
    for column, names in on.among().items():
        if (first := next((name for name in ranked if name in names), None)) is not None:
            chosen[column] = first
    return chosen | ({} if best is None else {"best": best}) | {"any": ranked[0], "serial": on.serial(ranked[0])}


def _final(columns: Mapping[str, str], clock: Clock, settings: Settings, seed: str) -> Rounds:
    names = list(dict.fromkeys(columns.values()))
    if BASE in columns:
        names.append(columns[BASE] + _AGAIN)
    return compare(names, lambda order: clock([name.removesuffix(_AGAIN) for name in order]), settings.rounds, seed)


# ---------------------------------------------------------------------------------------------------------------- records


def rounded(value: float) -> float:
    """Five digits: more would be noise, and the file is read by people."""
    return float(f"{value:.5g}")


def _spread(spread: Spread) -> dict[str, float]:
    return {name: rounded(value) for name, value in asdict(spread).items()}


def _screened(found: Screening) -> dict[str, Any]:
    """Microseconds of every candidate, fastest first; `dropped` names the round after which it was out. (The first of them are screened
    on, which is recorded beside it as `close`.)"""
    medians = {name: rounded(found.rounds.time(name).median * 1e6) for name in found.ranking}
    return {
        "seed": found.rounds.seed,
        "rounds": len(found.rounds.orders),
        "microseconds": medians,
        "dropped": dict(found.dropped),
    }


def _column(shape: Shape, columns: Mapping[str, str], column: str, final: Rounds) -> dict[str, Any]:
    name = columns[column]
    time = final.time(name)
    row: dict[str, Any] = {"name": name, "microseconds": _spread(Spread.of(one * 1e6 for one in final.times(name)))}
    row["teraflops"] = rounded(shape.flops / time.median / 1e12)
    if BASE in columns and column != BASE:
        row["ratio"] = _spread(final.ratio(name, columns[BASE]))
    return row


def _turns(final: Rounds) -> dict[str, Any]:
    """Every turn of every round as it was run."""
    names = sorted(final.orders[0])
    return {
        "seed": final.seed,
        "names": names,
        "orders": [[names.index(name) for name in order] for order in final.orders],
        "microseconds": [[rounded(one * 1e6) for one in row] for row in final.seconds],
    }
