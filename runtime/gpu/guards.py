"""Facts known only to the driver before a launch: the owner of an address, the device of a stream, whether a cluster fits.

Queried once per signature and stream; per launch only for arrays of libraries other than torch.
"""

import warnings
from collections.abc import Mapping
from typing import Any

from pipec.interface import KernelInterface, LaunchExpression
from pipec.runtime.arguments.views import View
from pipec.runtime.errors import ArgumentError, DeviceError, LaunchError
from pipec.runtime.gpu.cuda_driver import Device, Driver

# The legacy and the per-thread default stream belong to the current device.
DEFAULT_STREAMS = (0, 1, 2)


def check_pointers(driver: Driver, kernel: str, views: Mapping[str, View]) -> None:
    """Checks that each array in device memory begins and ends in memory known to CUDA; raises ArgumentError."""
    for name, view in views.items():
        if not (view.on_host or view.empty):
            check_memory(driver, kernel, name, view.address, view.extent)


def check_memory(driver: Driver, kernel: str, name: str, begin: int, extent: int) -> None:
    """Checks that an array's first and last byte are in memory known to CUDA; raises ArgumentError.

    The owner is not compared: on a machine with two GPUs cuda.bindings was seen to return 0 for memory of the second.
    """
    for address, end in ((begin, "begins"), (begin + extent - 1, "ends")):
        # A faulting kernel destroys the CUDA context, so a stale pointer is worth two queries before the launch.
        if driver.owner_of(address) is None:
            raise ArgumentError(
                kernel,
                name,
                f"it {end} at {address:#x}, which is no memory that CUDA knows ({extent} bytes from {begin:#x})",
                "was it freed? does its shape say more than was allocated? arrays in host memory are passed as NumPy arrays",
            )


def check_stream(driver: Driver, kernel: str, device: Device, stream: int) -> bool:
    """Checks that the stream belongs to `device`: the driver would run the kernel on the stream's device. Raises DeviceError.

    False if that cannot be queried: a stream being captured answers no other query (and the query would end the capture).
    """
    if stream in DEFAULT_STREAMS:
        return True
    if _captured(driver, kernel, stream):
        return False
    owner = int(driver.call("cuStreamGetDevice", stream, kernel=kernel, doing=f"asking for the device of stream {stream:#x}"))
    if owner != device.index:
        raise DeviceError(
            f"kernel `{kernel}`: the stream belongs to cuda:{owner}, but the launch is on cuda:{device.index}",
            f"pass a stream of that device, in torch `torch.cuda.Stream(device={device.index})`",
        )
    return True


def _captured(driver: Driver, kernel: str, stream: int) -> bool:
    status = driver.call("cuStreamIsCapturing", stream, kernel=kernel, doing="asking whether the stream is being captured")
    return bool(status != driver.api.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)


def refuse_capture(driver: Driver, kernel: str, stream: int, why: str) -> None:
    """Raises LaunchError if a CUDA graph is being captured from `stream`."""
    if _captured(driver, kernel, stream):
        raise LaunchError(kernel, f"the stream is being captured into a graph, and {why}", "launch it outside of the capture")


def active_clusters(driver: Driver, interface: KernelInterface, device: Device, function: Any, config: Any) -> int:
    """The number of clusters that fit the GPU at the same time; raises LaunchError with the requirements of one if none fits."""
    function = driver.api.CUfunction(int(function))
    doing = "asking how many of its clusters fit"
    fitting = int(driver.call("cuOccupancyMaxActiveClusters", function, config, kernel=interface.name, doing=doing))
    # The driver accounts for shared memory, registers and the groups of multiprocessors; this cannot be computed reliably here.
    if fitting > 0:
        return fitting
    x, y, z = interface.cluster
    raise LaunchError(
        interface.name,
        f"no cluster of {x} x {y} x {z} CTAs, each with {interface.threads} threads and {interface.shared_bytes} bytes of shared "
        f"memory, fits {device.name}: the CTAs of a cluster share one group of multiprocessors",
        "use a smaller cluster, fewer stages or smaller tiles",
    )


def tell_second_wave(interface: KernelInterface, device: Device, grid: tuple[int, int, int], clusters: int) -> None:
    """Warns about persistent blocks that cannot all be resident, so that some wait until others have ended."""
    x, y, z = interface.cluster
    asked = grid[0] * grid[1] * grid[2] // (x * y * z)
    if asked > clusters and any(map(_is_bounded, interface.grid)):
        warnings.warn(
            f"kernel `{interface.name}` shares its tiles out to {asked} clusters of {x} x {y} x {z} CTAs, but {device.name} has room for "
            f"{clusters} at the same time: the others start when one of these has ended; leave `blocks` out, so that as many run as fit",
            RuntimeWarning,
            stacklevel=2,
        )


def _is_bounded(extent: LaunchExpression) -> bool:
    """`min(tiles, 144)`, or a multiple of it: a bounded number of blocks, whatever the sizes are."""
    match extent:
        case ("min", *operands):
            return any(isinstance(operand, int) for operand in operands)
        case ("*", int(), inner):
            return _is_bounded(inner)
    return False
