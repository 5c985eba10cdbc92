"""LLVM IR to PTX, in this process, through llvmlite."""

from collections.abc import Sequence
from functools import cache

import llvmlite.binding as llvm

from pipec.isa.targets import Target
from pipec.kir.plan.types import Plan
from pipec.ptx.normalise import normalise
from pipec.source import Source

# Of the code generator. Its third level also searches for redundant loads and partly redundant values (GVN): a tenth of its time, and
# in no example a shorter loop.
_OPTIMISATION = 2
# Passes that the code generator runs before it selects instructions. They look for what the lowering has not written in the first place,
# and what is left to find, the selection of instructions and the assembler find as well. Like every option of LLVM, this one holds for the
# whole process.
_UNUSED = ("early-cse", "slsr", "nary-reassociate", "separate-const-offset-from-gep", "speculative-execution")


@cache
def _target_machine(name: str, features: str) -> llvm.TargetMachine:
    _initialise()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    return target.create_target_machine(cpu=name, features=features, opt=_OPTIMISATION)


@cache
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # 32-bit pointers to shared and tensor memory; the data layout of every target machine made afterwards says so.
    llvm.set_option("", "--nvptx-short-ptr")
    # Its rewriting of loop counters saves nothing in loops as small as these, costs time, and makes the PTX harder to read.
    llvm.set_option("", "--disable-lsr")
    llvm.set_option("", f"--opt-disable={','.join(_UNUSED)}")
    # Parsing would verify the module for an upgrade of old debug information that it has none of, and end the process where it finds a
    # fault; `assembly` verifies it.
    llvm.set_option("", "--disable-auto-upgrade-debug-info")


def _passes() -> llvm.ModulePassManager:
    """Few passes: there is no memory to turn into values (pipec.lower.emit.variables), and combining instructions takes a tenth of the
    time for loops of the same length. None of these unrolls a loop or makes a table of a switch.
    """
    manager = llvm.create_new_module_pass_manager()
    manager.add_simplify_cfg_pass()
    manager.add_loop_rotate_pass()
    return manager


def emit(llvm_ir: str, target: Target, plans: Sequence[Plan], source: Source) -> str:
    """PTX text, normalised."""
    return normalise(assembly(llvm_ir, target), [plan.interface for plan in plans], source)


def assembly(llvm_ir: str, target: Target) -> str:
    """PTX as LLVM prints it. IR that does not parse or verify is a bug of ours."""
    machine = _target_machine(target.name, target.features)
    module = llvm.parse_assembly(llvm_ir)
    module.data_layout = str(machine.target_data)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=_OPTIMISATION))
    _passes().run(module, builder)
    return str(machine.emit_assembly(module))
