"""The type of a row of the instruction table, and the LLVM types of operands."""

from pipec.record import record
from pipec.vocabulary import Converged

I1, I16, I32, I64, F32, VOID = "i1", "i16", "i32", "i64", "float", "void"
SHARED = "ptr addrspace(3)"
TENSOR = "ptr addrspace(6)"
CLUSTER = "ptr addrspace(7)"  # shared memory of the cluster
GLOBAL = "ptr addrspace(1)"
GENERIC = "ptr"
HALF2, BFLOAT2 = "<2 x half>", "<2 x bfloat>"


@record
class Instruction:
    """`llvm` is an intrinsic's name, or with `constraints` a template of PTX text ($0, $1, ... stand for the operands).

    `operands` are LLVM types; one that ends in "=" must be an immediate. `participation`: "thread", or the group that must run it
    converged ("warp", "warpgroup", "cta"). `target` is the first architecture that has it.
    """

    name: str
    llvm: str
    result: str
    operands: tuple[str, ...]
    ptx: str
    participation: Converged
    section: str
    target: str = "sm_90a"
    constraints: str | None = None
    pure: bool = False  # the result depends only on the operands, in one thread: it may be reused

    @property
    def acts(self) -> bool:
        """Whether it is executed for its effect: the result of an arrival is an unused token."""
        return self.result == VOID or self.name.startswith("mbarrier.arrive")


def intrinsic(name: str, llvm: str, result: str, operands: tuple[str, ...], ptx: str, participation: Converged, section: str,
               target: str = "sm_90a") -> Instruction:  # fmt: skip
    return Instruction(name, f"llvm.nvvm.{llvm}", result, operands, ptx, participation, section, target)
