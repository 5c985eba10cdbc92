"""What only the driver can tell before a launch: whose memory an address is, whose stream a handle is, whether a cluster fits.

Asked once for each signature and each stream; only arrays of libraries other than torch are asked for at each launch.
"""

import warnings
from collections.abc import Mapping
from typing import Any

from pipec.interface import KernelInterface, LaunchExpression
from pipec.runtime.arguments.views import View
from pipec.runtime.errors import ArgumentError, DeviceError, LaunchError
from pipec.runtime.gpu.cuda_driver import Device, Driver

# The legacy and the per-thread default stream belong to whatever device is current.
DEFAULT_STREAMS = (0, 1, 2)


def check_pointers(driver: Driver, kernel: str, views: Mapping[str, View]) -> None:
    """Each array in device memory begins and ends in memory that CUDA knows; raises ArgumentError."""
    for name, view in views.items():
        if not (view.on_host or view.empty):
            check_memory(driver, kernel, name, view.address, view.extent)


def check_memory(driver: Driver, kernel: str, name: str, begin: int, extent: int) -> None:
    """An array's first and last byte lie in memory that CUDA knows; raises ArgumentError.

    Whose memory it is is not compared: on a machine with two GPUs cuda.bindings was seen to answer 0 for memory of the second.
    """
    for address, end in ((begin, "begins"), (begin + extent - 1, "ends")):
        # A kernel that faults takes the CUDA context with it, so a stale pointer is worth two questions before the launch.
        if driver.owner_of(address) is None:
            raise ArgumentError(
                kernel,
                name,
                f"it {end} at {address:#x}, which is no memory that CUDA knows ({extent} bytes from {begin:#x})",
                "was it freed? does its shape say more than was allocated? arrays in host memory are passed as NumPy arrays",
            )


def check_stream(driver: Driver, kernel: str, device: Device, stream: int) -> bool:
    """The stream is one of `device`: the driver would run the kernel wherever the stream is. Raises DeviceError.

    False when that cannot be asked: a stream that is being captured tells nothing else (and the question would end the capture).
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
    """Raises LaunchError when a CUDA graph is being captured from `stream`."""
    if _captured(driver, kernel, stream):
        raise LaunchError(kernel, f"the stream is being captured into a graph, and {why}", "launch it outside of the capture")


def active_clusters(driver: Driver, interface: KernelInterface, device: Device, function: Any, config: Any) -> int:
    """How many clusters fit the GPU at the same time; raises LaunchError with what one needs where there is no place for it."""
    function = driver.api.CUfunction(int(function))
    doing = "asking how many of its clusters fit"
    fitting = int(driver.call("cuOccupancyMaxActiveClusters", function, config, kernel=interface.name, doing=doing))
    # The driver counts what shared memory, registers and the groups of multiprocessors leave room for; none of that can be computed
    # here with certainty.
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
    """Warns of blocks that are to stay until all work is done, but of which some wait until others have ended."""
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
    """`min(tiles, 144)`, or a multiple of it: at most so many blocks, whatever the sizes are."""
    match extent:
        case ("min", *operands):
            return any(isinstance(operand, int) for operand in operands)
        case ("*", int(), inner):
            return _is_bounded(inner)
    return False
