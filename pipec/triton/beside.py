"""What programs of Triton use beside kernels, and what would look for a GPU of its own: the profiler, and cuBLAS.

The profiler measures nothing: what is simulated has no time. cuBLAS is what tutorials compare their products with; torch computes those.
"""

from collections.abc import Callable, Iterator
from typing import Any

from triton._C.libtriton import nvidia

# Of the profiler's own module, those that ask the driver of a GPU or come after one that did, and what they return here.
_PROFILER: dict[str, object] = {
    "start": 0, "activate": None, "activate_all": None, "deactivate": None, "deactivate_all": None, "finalize": None, "finalize_all": None,
    "record_scope": 0, "enter_scope": None, "exit_scope": None, "enter_op": None, "exit_op": None, "enter_state": None, "exit_state": None,
    "add_metrics": None, "set_metric_kernels": None, "get_context_depth": 0, "get_data": "[]", "get_data_msgpack": b"\x90",
    "advance_data_phase": 0, "is_data_phase_complete": True, "clear_data": None, "init_function_metadata": None,
    "destroy_function_metadata": None, "enter_instrumented_op": None, "exit_instrumented_op": None,
}  # fmt: skip


class CublasLt:
    """Products of torch tensors as Triton's binding of cuBLAS has them: the second operand stands transposed, D = alpha A B^T + beta C."""

    def __init__(self, workspace: Any) -> None:
        pass

    def matmul(self, a: Any, b: Any, d: Any) -> None:
        d.copy_((a.float() @ b.float().T).to(d.dtype))

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        d.copy_((alpha * (a.float() @ b.float().T) + beta * c.float()).to(d.dtype))


def _always(value: object) -> Callable[..., object]:
    return lambda *_, **__: value


def replacements() -> Iterator[tuple[Any, str, object]]:
    """Whose attribute is to be replaced, its name, and by what."""
    yield nvidia.cublas, "CublasLt", CublasLt
    try:
        from triton._C.libproton import proton
    except ImportError:
        return
    for name, value in _PROFILER.items():
        if hasattr(proton, name):
            yield proton, name, _always(value)
