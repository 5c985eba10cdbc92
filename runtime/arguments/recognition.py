"""Whether tensors are like those of an earlier call, asked of torch at once: it compares in C what signatures.py reads one by one.

torch keeps such comparisons for what torch.compile has compiled (torch._C._dynamo.guards.TensorGuards). They know types, element types,
devices, sizes, strides, whether a gradient is required, and the state of dispatch (negative views, inference mode), but no addresses. The
interface is not a public one: it is tried once, and where it is absent or does anything else, nothing is recognised and all is read.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

# Tensors, in order, that are all like those that it was made of. False for everything else, also for one tensor that comes twice.
Recognise = Callable[..., bool]


def recogniser(tensors: Sequence[Any]) -> Recognise | None:
    """Of tensors like these; keeps nothing of them. None where torch has none, and for classes that are not torch's own: a class of the
    caller's may end, and another one begin at its address."""
    torch = sys.modules.get("torch")
    own = getattr(torch, "Tensor", None), getattr(getattr(torch, "nn", None), "Parameter", None)
    if any(type(one) not in own for one in tensors):
        return None
    made = _made(torch, tensors) if _works(torch) else None
    return made if made is not None and made(*tensors) is True else None


def _made(torch: Any, tensors: Sequence[Any]) -> Recognise | None:
    try:
        check: Recognise = torch._C._dynamo.guards.TensorGuards(
            *tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None
        ).check
        return check
    except Exception:  # noqa: BLE001 - of an interface that is not public, anything may have changed
        return None


@cache
def _works(torch: Any) -> bool:
    """On tensors that differ in one thing each."""
    try:
        with torch.no_grad(), torch.device("cpu"):
            one = torch.zeros(4, 6)
            same = torch.zeros(4, 6)
            others = (
                torch.zeros(4, 6, dtype=torch.int32),
                torch.zeros(4, 5),
                torch.zeros(6, 4).T,
                torch.zeros(4, 7)[:, :6],
                torch.zeros(4, 6, requires_grad=True),
                torch._neg_view(same),
                torch.zeros(4, 6, device="meta"),
                torch.zeros(24),
                None,
            )
        made = _made(torch, (one, same))
        return made is not None and made(same, one) is True and not any(made(one, other) for other in others)
    except Exception:  # noqa: BLE001
        return False
