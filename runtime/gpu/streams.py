"""Stream handles from torch, CuPy, cuda.core, or the driver."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pipec.runtime.arguments.views import View, is_torch
from pipec.runtime.errors import DeviceError

DEFAULT_STREAM = 0
KNOWN_STREAMS = 256  # handles cached per kernel and device


def stream_handle(stream: Any) -> int:
    """The driver's handle of a stream: an int, torch (`cuda_stream`), CuPy (`ptr`), cuda.core (`__cuda_stream__`, `handle`)."""
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr", "handle"):
        if (handle := getattr(stream, attribute, None)) is not None:
            return int(handle)
    raise DeviceError(f"`{type(stream).__name__}` is not a stream", "pass a torch, CuPy or cuda.core stream, or its handle")


def _default_stream() -> int:
    return DEFAULT_STREAM


def current_stream_of(views: Mapping[str, View], index: int) -> Callable[[], int]:
    """A function that returns the stream of the arrays' library: torch's current one, else the default stream."""
    if not any(is_torch(type(view.owner)) and getattr(view.owner, "is_cuda", False) for view in views.values()):
        return _default_stream
    import torch

    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # as torch.compile and Triton do: creates no Stream object
    return (lambda: int(torch.cuda.current_stream(index).cuda_stream)) if raw is None else partial(raw, index)
