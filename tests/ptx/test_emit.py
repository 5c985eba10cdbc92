"""LLVM IR to PTX: what a fault in the lowering's text ends in."""

import pytest

from pipec.isa.targets import TARGETS
from pipec.ptx.emit import assembly

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
