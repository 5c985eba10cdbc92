"""Predictions of a program's text and of an example."""

from pathlib import Path

from pipec.driver import Options, compile_source
from pipec.predict.launch import Prediction, prediction
from pipec.source import Source

EXAMPLES = Path(__file__).parents[2] / "examples"
# Examples of which no time can be predicted: the tensor that holds how many rows a group has, or a sequence.
LENGTHS_IN_MEMORY = {
    **dict.fromkeys(("gemm_grouped", "gemm_sm90_grouped", "gemm_sm90_gathered"), "begins"),
    "attention_sm90_paged": "lengths",
}


def predicted(text: str, constants: dict[str, object] | None = None, arch: str | None = None, **sizes: int) -> Prediction:
    state = compile_source(Source("a.pipe", text), Options(arch, constants or {}), "plan")
    assert state.trees is not None, state.diagnostics
    return prediction(state, state.trees[0].name, sizes)


def example(name: str, constants: dict[str, object] | None = None, arch: str | None = None, **sizes: int) -> Prediction:
    return predicted((EXAMPLES / f"{name}.pipe").read_text(encoding="utf-8"), constants, arch, **sizes)
