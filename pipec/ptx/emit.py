"""LLVM IR to PTX, in this process, through llvmlite."""

from functools import cache

import llvmlite.binding as llvm

from pipec.isa.targets import Target

_OPTIMISATION = 3


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


def emit(llvm_ir: str, target: Target) -> str:
    """PTX text as LLVM prints it. IR that does not parse or verify is a bug of ours: RuntimeError with LLVM's message."""
    machine = _target_machine(target.name, target.features)
    module = llvm.parse_assembly(llvm_ir)
    module.data_layout = str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=_OPTIMISATION)
    options.loop_unrolling = False
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module)
