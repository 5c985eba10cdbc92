"""Numbers are written in ASCII digits wherever text becomes a number; Python's `int` takes those of every script."""

from pathlib import Path

import pytest

from pipec.commands.cli import main
from pipec.commands.launching.argument_text import BadText, _number, _sizes
from pipec.watchdog import seconds_of

GEMM = str(Path(__file__).parents[2] / "examples" / "gemm.pipe")
ARABIC = "\u0661\u0662\u0668"  # 128


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["check", GEMM, "-D", f"BM={ARABIC}"], 1, "E0218"),
        (["run", GEMM, "--device", "sim", "--shape", f"M={ARABIC}", "N=256", "K=64"], 1, "is not a number"),
        (["run", GEMM, "--device", "sim", "--seed", ARABIC, "--shape", "M=256", "N=256", "K=64"], 2, "not a whole number"),
        (["compile", GEMM, f"--watchdog={ARABIC}"], 2, "no number of seconds"),
    ],
)
def test_on_the_command_line(arguments: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        found = main(arguments)
    except SystemExit as exit:
        found = exit.code
    assert found == status
    assert said in capsys.readouterr().err


def test_in_the_arguments_of_a_ptx_file() -> None:
    import numpy as np

    with pytest.raises(BadText):
        _number(ARABIC, np.dtype(np.int32))
    with pytest.raises(BadText):
        _sizes(ARABIC)
    assert seconds_of(f"watchdog={ARABIC}") is None


def test_in_ptx() -> None:
    from pipec.sim.errors import SimulationError
    from pipec.sim.ptx.tokens import tokenize

    with pytest.raises(SimulationError):
        tokenize(f".reg .b32 %r<{ARABIC}>;")
