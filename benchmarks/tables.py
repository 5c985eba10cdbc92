"""Writes the tables of measured figures in README.md and docs/ from benchmarks/results/*.json, so that no figure is typed by hand.

    python benchmarks/tables.py [--check]

A table stands between `<!-- figures: NAME -->` and `<!-- end of figures -->`. `--check` changes nothing and fails when one is not what the
results say; a test does the same.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
sys.path[:0] = [str(ROOT)]

from benchmarks.figures.attention_and_memory import attention, copying, decode, layer_norm_backward, memory, memory_summary
from benchmarks.figures.compiler import choices, compiling, cycles, foreign, ladders, predicted, simulating
from benchmarks.figures.launches import launching, llama
from benchmarks.figures.products import (
    blockwise,
    chosen_then,
    epilogue,
    fresh,
    gathered,
    gemm,
    gemm_choice,
    gemm_short,
    gemm_summary,
    grouped,
    last_waves,
    split_k,
)
from benchmarks.figures.text import Record

DOCUMENTS = (
    "README.md",
    "docs/benchmarks.md",
    "docs/gpu.md",
    "docs/simulator.md",
    "docs/time.md",
    "docs/torch.md",
    "docs/tuning.md",
)
_BLOCK = re.compile(r"(<!-- figures: (?P<name>[\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)

TABLES: dict[str, tuple[str, Callable[[Record], list[str]]]] = {
    "gemm-short": ("h200_turns", gemm_short),
    "gemm-summary": ("h200_turns", gemm_summary),
    "gemm": ("h200_turns", gemm),
    "gemm-choice": ("gemm_choice", gemm_choice),
    "gemm-chosen": ("h200_choice", chosen_then),
    "gemm-fresh": ("h200_turns", fresh),
    "split-k": ("h200_split_k", split_k),
    "last-waves": ("h200_waves", last_waves),
    "epilogue": ("h200_epilogue", epilogue),
    "blockwise": ("h200_blockwise", blockwise),
    "grouped": ("h200_grouped", grouped),
    "gathered": ("h200_gathered", gathered),
    "attention": ("h200_attention", attention),
    "attention-backward": ("h200_attention_backward", attention),
    "decode": ("h200_decode", decode),
    "copying": ("copy_tma", copying),
    "memory-summary": ("h200_memory", memory_summary),
    "memory": ("h200_memory", memory),
    "layer-norm-backward": ("h200_layer_norm_backward", layer_norm_backward),
    "launching": ("launch", launching),
    "llama": ("llama", llama),
    "compiling": ("compile", compiling),
    "simulating": ("sim_versions", simulating),
    "predicted": ("predict", predicted),
    "cycles": ("predict", cycles),
    "ladders": ("predict", ladders),
    "choices": ("predict", choices),
    "foreign": ("h200_foreign", foreign),
}


# -------------------------------------------------------------------------------------------------------------- documents


def rendered(name: str, results: Path = RESULTS) -> str:
    """A table as it must stand in a document. Raises KeyError for a name that is none."""
    file, table = TABLES[name]
    path = results / f"{file}.json"
    if not path.exists():
        return f"Not measured yet: there is no benchmarks/results/{file}.json.\n"
    return "\n".join(table(json.loads(path.read_text(encoding="utf-8")))) + "\n"


def filled(text: str, results: Path = RESULTS) -> str:
    """A document with its tables as the results have them."""
    return _BLOCK.sub(lambda found: found[1] + rendered(found["name"], results) + found[3], text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name in DOCUMENTS:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        if (wanted := filled(text)) == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(wanted, encoding="utf-8")
    print("\n".join(f"{'stale' if check else 'written'}: {name}" for name in stale) or "every table is what the results say")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
