"""LLVM IR to PTX, in this process."""

from collections.abc import Sequence
from functools import cache

from pipec.isa.targets import Target
from pipec.kir.plan.types import Plan
from pipec.llvm_lock import LLVM_LOCK
from pipec.ptx import llvm
from pipec.ptx.constants import once
from pipec.ptx.first_turns import from_tests
from pipec.ptx.negations import as_complements
from pipec.ptx.normalise import normalise
from pipec.source import Source

# Level of the code generator. Level 3 adds redundant-load elimination and GVN: a tenth of the time, and no shorter loop in any example.
_OPTIMISATION = 2
# Passes of the code generator before instruction selection. They look for patterns that the lowering does not produce; instruction
# selection and the assembler handle the rest. Like every LLVM option, this is process-wide.
_UNUSED = (
    "early-cse", "slsr", "nary-reassociate", "separate-const-offset-from-gep", "speculative-execution",
    "consthoist", "partially-inline-libcalls", "replace-with-veclib",
)  # fmt: skip


@cache
def _machine(name: str, features: str) -> llvm.Machine:
    _set_options()
    return llvm.Machine("nvptx64-nvidia-cuda", name, features, _OPTIMISATION)


@cache
def _set_options() -> None:
    # 32-bit pointers to shared and tensor memory; reflected in the data layout of every machine created afterwards.
    llvm.set_option("--nvptx-short-ptr")
    # Loop strength reduction gains nothing in loops this small, costs time, and makes the PTX harder to read.
    llvm.set_option("--disable-lsr")
    llvm.set_option(f"--opt-disable={','.join(_UNUSED)}")
    # Otherwise parsing would verify the module in order to upgrade old debug information, which it does not have, and abort the process on
    # an error; a machine verifies it before code generation.
    llvm.set_option("--disable-auto-upgrade-debug-info")


def emit(llvm_ir: str, target: Target, plans: Sequence[Plan], source: Source) -> str:
    """PTX text, normalised."""
    text = normalise(as_complements(assembly(llvm_ir, target)), [plan.interface for plan in plans], source)
    return once(from_tests(text))


def assembly(llvm_ir: str, target: Target) -> str:
    """PTX as LLVM prints it. IR that does not parse or verify is an internal error."""
    with LLVM_LOCK:
        return _machine(target.name, target.features).assembly(llvm_ir)
