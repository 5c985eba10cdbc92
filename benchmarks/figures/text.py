"""What tables of measured figures are made of."""

from collections.abc import Iterable, Mapping
from math import exp, log
from typing import Any

Record = Mapping[str, Any]


def geomean(values: Iterable[float]) -> float:
    found = list(values)
    return exp(sum(map(log, found)) / len(found))


def row_of(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def head(*cells: str) -> list[str]:
    return [row_of(*cells), "|" + "---|" * len(cells)]


def where(record: Record) -> str:
    smi = record.get("nvidia_smi", {})
    versions = f"torch {record['torch']}, Triton {record['triton']}, cuBLASLt {record['cublaslt']}"
    commit = _commit(record["source"])
    return f"{record['date'][:10]}, {record['gpu']}, driver {smi.get('driver_version', 'unknown')}, {versions}, pipec {commit}."


def _commit(source: Mapping[str, str]) -> str:
    """What was measured: a commit, or, where the tree was never one of this history, the one that carries the record or is next to it."""
    return source["commit"][:12] if "commit" in source else f"near {source['nearest']}"
