"""LLVM IR to PTX, in this process."""

from collections.abc import Sequence
from functools import cache

from pipec.isa.targets import Target
from pipec.kir.plan.types import Plan
from pipec.ptx import llvm
from pipec.ptx.normalise import normalise
from pipec.source import Source

# Of the code generator. Its third level also searches for redundant loads and partly redundant values (GVN): a tenth of its time, and
# in no example a shorter loop.
_OPTIMISATION = 2
# Passes that the code generator runs before it selects instructions. They look for what the lowering has not written in the first place,
# and what is left to find, the selection of instructions and the assembler find as well. Like every option of LLVM, this one holds for the
# whole process.
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
    # 32-bit pointers to shared and tensor memory; the data layout of every machine made afterwards says so.
    llvm.set_option("--nvptx-short-ptr")
    # Its rewriting of loop counters saves nothing in loops as small as these, costs time, and makes the PTX harder to read.
    llvm.set_option("--disable-lsr")
    llvm.set_option(f"--opt-disable={','.join(_UNUSED)}")
    # Parsing would verify the module for an upgrade of old debug information that it has none of, and end the process where it finds a
    # fault; a machine verifies it before it makes code.
    llvm.set_option("--disable-auto-upgrade-debug-info")


def emit(llvm_ir: str, target: Target, plans: Sequence[Plan], source: Source) -> str:
    """PTX text, normalised."""
    return normalise(assembly(llvm_ir, target), [plan.interface for plan in plans], source)


def assembly(llvm_ir: str, target: Target) -> str:
    """PTX as LLVM prints it. IR that does not parse or verify is a bug of ours."""
    return _machine(target.name, target.features).assembly(llvm_ir)
