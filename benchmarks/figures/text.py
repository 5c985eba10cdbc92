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
    commit = record["source"]["commit"][:12]
    return f"{record['date'][:10]}, {record['gpu']}, driver {smi.get('driver_version', 'unknown')}, {versions}, pipec {commit}."
