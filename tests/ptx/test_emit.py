"""LLVM IR to PTX: LLVM is called as llvmlite calls it, and what a fault in the lowering's text ends in."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llvmlite.binding
import pytest

from pipec.driver import compile_source
from pipec.isa.targets import TARGETS
from pipec.ptx.emit import assembly
from pipec.source import Source

EXAMPLES = Path(__file__).parents[2] / "examples"

# `%x` is not computed on the way from the entry.
BROKEN = """\
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @f(i1 %taken) {
entry:
  br i1 %taken, label %then, label %done
then:
  %x = add i32 1, 1
  br label %done
done:
  %y = add i32 %x, 1
  ret void
}
!llvm.module.flags = !{!0}
!0 = !{i32 2, !"Debug Info Version", i32 3}
"""


def test_text_that_llvm_refuses_is_an_exception() -> None:
    """And not the end of the process, so that the driver can say which stage failed."""
    with pytest.raises(RuntimeError, match="does not dominate"):
        assembly(BROKEN, TARGETS["sm_100a"])


def test_text_that_does_not_parse_is_an_exception() -> None:
    with pytest.raises(RuntimeError, match="value doesn't match function result type"):
        assembly("define void @f() { ret i32 1 }", TARGETS["sm_100a"])


def by_llvmlite(ir: str, arch: str) -> str:
    """By the functions that llvmlite documents."""
    target = llvmlite.binding.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu=TARGETS[arch].name, features=TARGETS[arch].features, opt=2)
    module = llvmlite.binding.parse_assembly(ir)
    module.data_layout = str(machine.target_data)
    passes = llvmlite.binding.create_new_module_pass_manager()
    passes.add_simplify_cfg_pass()
    passes.add_loop_rotate_pass()
    passes.run(module, llvmlite.binding.create_pass_builder(machine, llvmlite.binding.create_pipeline_tuning_options()))
    return str(machine.emit_assembly(module))


def lowered(name: str) -> str:
    path = EXAMPLES / name
    return compile_source(Source(name, path.read_text(encoding="utf-8")), until="lower").llvm or ""


@pytest.mark.parametrize(("name", "arch"), [("gemm.pipe", "sm_100a"), ("softmax.pipe", "sm_100a"), ("gemm_sm90.pipe", "sm_90a")])
def test_llvmlite_makes_the_same_of_it(name: str, arch: str) -> None:
    ir = lowered(name)
    assert assembly(ir, TARGETS[arch]) == by_llvmlite(ir, arch)


def test_threads_do_not_disturb_each_other() -> None:
    """Those that compile, and those that use llvmlite beside them, as the simulator does."""
    ir = lowered("gemm.pipe")
    expected = assembly(ir, TARGETS["sm_100a"])
    with ThreadPoolExecutor(4) as threads:
        ours = [threads.submit(assembly, ir, TARGETS["sm_100a"]) for _ in range(8)]
        others = [threads.submit(by_llvmlite, ir, "sm_100a") for _ in range(8)]
        assert {one.result() for one in ours + others} == {expected}
