"""Whether tensors are like those of an earlier call, in one call to torch: it compares in C what signatures.py reads one by one.

torch has such comparisons for the guards of torch.compile (torch._C._dynamo.guards.TensorGuards). They cover types, element types,
devices, sizes, strides, requires_grad, and the dispatch state (negative views, inference mode), but not addresses. The interface is not
public: it is tested once, and if it is absent or behaves differently, nothing is recognised and everything is read.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

# True if the tensors, in order, are all like those it was created from. False for anything else, including one tensor passed twice.
Recognise = Callable[..., bool]


def recogniser(tensors: Sequence[Any]) -> Recognise | None:
    """A recogniser for tensors like these, which keeps no references to them. None if torch has none, and for classes other than torch's
    own: a user's class may be freed, and another one created at its address."""
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
    """Tests it on tensors that differ in one property each."""
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
