"""The GEMM of the README: size of its code, registers, the look of its PTX, time to compile."""

import re

import pytest
from hand_built import Gemm

from pipec.diag.message import Sink
from pipec.isa.targets import TARGETS
from pipec.kir.build import build
from pipec.kir.plan.derive import plan
from pipec.lower import lower
from pipec.ptx.assemble import assemble
from pipec.ptx.emit import emit

TARGET = TARGETS["sm_100a"]


def compile_gemm() -> str:
    gemm = Gemm()
    plans = [plan(build(gemm.kernel()), TARGET)]
    return emit(lower(plans, gemm.source), TARGET, plans, gemm.source)


@pytest.fixture(scope="module")
def ptx() -> str:
    return compile_gemm()


def instructions(ptx: str) -> list[str]:
    lines = (line.strip() for line in ptx.splitlines())
    return [line for line in lines if line.endswith(";") and not line.startswith((".", "//"))]


def test_instruction_count(ptx):
    assert len(instructions(ptx)) <= 400


def test_no_spills_and_no_local_memory(ptx):
    sink = Sink()
    assembled = assemble(ptx, "sm_100a", sink, tool="ptxas")
    assert not sink.diagnostics
    (statistics,) = assembled.statistics
    assert not statistics.spills
    assert statistics.stack == 0
    assert ".local" not in ptx


def test_output_is_the_same_every_time(ptx):
    assert compile_gemm() == ptx


def test_source_lines_appear_beside_the_code(ptx):
    assert re.search(r"\.loc\t1 17 13\t// mma\(acc, t\.a, t\.b\)\n", ptx)
    assert " 0 " not in "".join(line for line in ptx.splitlines() if line.lstrip().startswith(".loc"))


def test_names_and_noise(ptx):
    assert ".param .align 64 .b8 gemm_map_a[128]" in ptx
    assert "_param_" not in ptx
    assert "inline asm" not in ptx
    assert ".section" not in ptx
    assert ptx.isascii()
    assert ptx.count("// pipec.kernel {") == 1


def test_each_prologue_step_appears_once(ptx):
    for text in ("fence.mbarrier_init", "tcgen05.alloc", "tcgen05.relinquish", "tcgen05.dealloc", "mbarrier.arrive.expect_tx"):
        assert sum(text in line for line in instructions(ptx)) == 1, text


def test_one_mma_per_32_bytes_of_k(ptx):
    assert sum("tcgen05.mma" in line for line in instructions(ptx)) == 4


def test_a_compilation_loads_nothing_that_it_does_not_run(tmp_path):
    """Half of the time of a process is imports: messages, large packages, and what `dataclasses` brings along."""
    import subprocess
    import sys
    from pathlib import Path

    example = Path(__file__).parents[2] / "examples" / "gemm.pipe"
    code = "import sys; from pipec.commands.cli import main; status = main(sys.argv[1:]); print(*sys.modules); sys.exit(status)"
    command = [sys.executable, "-c", code, "compile", str(example), "-o", str(tmp_path / "gemm.ptx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "pipec.protocol.prove" in loaded
    messages = {name for name in loaded if name.startswith("pipec.diag.catalogue.") and name.count(".") > 3}
    assert messages | loaded & {"numpy", "lark", "dataclasses", "inspect", "traceback", "pipec.sim", "pipec.predict"} == set()


def test_any_file_name_and_any_comment():
    """ptxas reads ASCII only and knows no escapes in `.file`."""
    from pathlib import Path

    from pipec.driver import compile_source
    from pipec.source import Source

    text = (Path(__file__).parents[2] / "examples" / "gemm.pipe").read_text()
    text = text.replace("acc.release()  ", "acc.release()  # räumt ✓ ")
    state = compile_source(Source('a\\b "c" é.pipe', text, first_line=40, indent=4))
    assert state.ptx is not None
    assert state.ptx.isascii()
    assert '.file\t1 "a/b ?c? ?.pipe"' in state.ptx
    line = next(line for line in state.ptx.splitlines() if "// acc.release()" in line)
    assert line.startswith("\t.loc\t1 70 13\t")


def test_names_of_the_user_never_meet_names_of_the_compiler():
    """A kernel, roles and tensors named like symbols and labels that lowering makes up."""
    from running import compiled

    source = """
kernel shared(x: tensor[f32, M, N], a: tensor[f32, M, N], a_2: tensor[f32, M, N]):
    grid(1)
    role dispatch(warps=4):
        for entry in range(3):
            store(a[0, 0], load(x[0, 0], 128, 64))
        if M > 100:
            store(a[0, 0], load(x[0, 0], 128, 16))
        else:
            store(a_2[0, 0], load(x[0, 0], 128, 32))
    role setup(warps=1):
        pass
"""
    ptx = compiled(source).ptx
    assert "shared_map_a[128]" in ptx
    assert "shared_map2_a[128]" in ptx
    assert "shared_map_a_2[128]" in ptx
