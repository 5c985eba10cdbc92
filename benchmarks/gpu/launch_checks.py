"""That launches are right and leave nothing behind, on a GPU: memory over many of them, threads with streams, graphs, tensor maps, devices.

Part of benchmarks/gpu/launch.py. Each check gives a row with "passed" and what it saw; one that raises has not passed.
"""

import gc
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import pipec

Row = dict[str, Any]
THREADS = 8
SHAPE = (128, 16)
DEVICE = "cuda"
_MEGABYTE = 1 << 20


def run(program: pipec.Program, launches: int) -> dict[str, Row]:
    """All checks by name."""
    kernel = program["add"]
    checks: dict[str, Callable[[], Row]] = {
        "no growth": lambda: growth(kernel, launches),
        "dropped outputs": lambda: dropped_outputs(kernel),
        "threads and streams": lambda: threads(kernel, 400),
        "threads that capture": lambda: capturing_threads(kernel, 60),
        "torch.cuda.graph": lambda: one_graph(kernel),
        "replaced addresses": lambda: replaced_addresses(kernel),
        "devices": lambda: devices(kernel),
    }
    return {name: _outcome(check) for name, check in checks.items()}


def _outcome(check: Callable[[], Row]) -> Row:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - whatever it is, the record says it and the other checks run
        return {"passed": False, "error": f"{type(error).__name__}: {error}"}


def _resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def _made() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x, y = (torch.randn(SHAPE, device=DEVICE) for _ in range(2))
    return x, y, torch.full_like(x, float("nan"))


# --- memory --------------------------------


def growth(kernel: Any, launches: int) -> Row:
    """Host and device memory over launches with fresh tensors; shapes change as well, every tenth among more than plans are kept."""

    def many(count: int) -> None:
        for at in range(count):
            rows = 128 + 16 * (at % 16 if at % 10 else 16 + at // 10 % 1500)
            x = torch.empty((rows, 16), device=DEVICE)
            kernel(x, torch.empty_like(x), torch.empty_like(x))
        torch.cuda.synchronize()
        gc.collect()

    many(16_000)  # every shape, and torch's own store of memory
    before = _resident(), torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.mem_get_info()[0]
    many(launches)
    after = _resident(), torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.mem_get_info()[0]
    host, allocated, reserved, free = (new - old for new, old in zip(after, before, strict=True))
    return {
        "passed": host < 8 * _MEGABYTE and allocated == 0 and reserved < 64 * _MEGABYTE and free > -64 * _MEGABYTE,
        "launches": launches,
        "host_bytes": host,
        "device_bytes_allocated": allocated,
        "device_bytes_reserved": reserved,
        "device_bytes_free": free,
    }


def dropped_outputs(kernel: Any) -> Row:
    """Outputs that the caller drops are free at once: 300 of 512 MiB, of which the GPU holds far fewer."""
    x = torch.randn(SHAPE, device=DEVICE)
    most = 0
    for _ in range(300):
        block = torch.empty(512 * _MEGABYTE // 4, device=DEVICE)
        kernel(x, x, block[:2048].view(SHAPE))
        most = max(most, torch.cuda.memory_allocated())
        del block
    torch.cuda.synchronize()
    return {"passed": most < 1024 * _MEGABYTE, "most_bytes_allocated": most}


# --- threads --------------------------------


def _in_threads(work: Callable[[int], int]) -> tuple[int, list[str]]:
    """The mistakes that threads report, and what they raise."""
    barrier, wrong, raised = threading.Barrier(THREADS), [0] * THREADS, []

    def body(index: int) -> None:
        try:
            torch.cuda.set_device(0)
            barrier.wait()
            wrong[index] = work(index)
        except Exception as error:  # noqa: BLE001 - told in the record
            raised.append(f"{type(error).__name__}: {error}")

    running = [threading.Thread(target=body, args=(index,)) for index in range(THREADS)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(wrong), raised


def threads(kernel: Any, rounds: int) -> Row:
    """Each thread on a stream of its own: three kernels that follow each other, with and without the same tensors, all compared.

    A launch that lands in another thread's stream would run before what it reads is written, sooner or later.
    """
    shared = _made()[:2]

    def work(index: int) -> int:
        wrong = 0
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            a, b, c = (torch.empty(SHAPE, device=DEVICE) for _ in range(3))
            for at in range(rounds):
                for tensor in (a, b, c):
                    tensor.fill_(float("nan"))
                x, y = shared if at % 2 else (torch.randn(SHAPE, device=DEVICE) for _ in range(2))
                kernel(x, y, a)
                kernel(a, y, b)
                kernel(b, a, c, stream=stream if at % 3 else None)
                wrong += not torch.equal(c, (x + y + y) + (x + y))
        return wrong

    torch.cuda.synchronize()
    wrong, raised = _in_threads(work)
    return {"passed": not wrong and not raised, "launches": 3 * rounds * THREADS, "wrong": wrong, "raised": raised[:3]}


def capturing_threads(kernel: Any, rounds: int) -> Row:
    """Half of the threads capture graphs and replay them, the others launch, all with the same tensors as inputs."""
    x, y, _ = _made()
    kernel(x, y, torch.empty_like(x))
    torch.cuda.synchronize()
    one_at_a_time = threading.Lock()  # torch's random generator takes part in one capture only

    def work(index: int) -> int:
        wrong = 0
        stream = torch.cuda.Stream()
        z, twice = torch.empty(SHAPE, device=DEVICE), torch.empty(SHAPE, device=DEVICE)
        stream.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(rounds):
                if index % 2:
                    graph = torch.cuda.CUDAGraph()
                    with one_at_a_time:
                        graph.capture_begin(capture_error_mode="thread_local")
                        kernel(x, y, z)
                        kernel(z, y, twice)
                        graph.capture_end()
                    z.fill_(float("nan"))
                    twice.fill_(float("nan"))
                    graph.replay()
                else:
                    kernel(x, y, z)
                    kernel(z, y, twice)
                stream.synchronize()
                wrong += not (torch.equal(z, x + y) and torch.equal(twice, x + y + y))
        return wrong

    wrong, raised = _in_threads(work)
    return {"passed": not wrong and not raised, "graphs": rounds * THREADS // 2, "wrong": wrong, "raised": raised[:3]}


def one_graph(kernel: Any) -> Row:
    x, y, z = _made()
    kernel(x, y, z)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, y, z)
        fresh = torch.empty_like(z)
        kernel(z, y, fresh)
    wrong = 0
    for _ in range(5):
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.cuda.synchronize()
        wrong += not (torch.equal(z, x + y) and torch.equal(fresh, x + y + y))
    return {"passed": not wrong, "wrong": wrong}


# --- tensor maps, devices --------------------------------


def replaced_addresses(kernel: Any) -> Row:
    """A tensor map whose address was replaced has the bytes of one encoded with that address."""
    from pipec.runtime import Launcher
    from pipec.runtime.arguments.binding import bind
    from pipec.runtime.arguments.parameters import TensorMapValue, values_of

    tensors = _made()
    launcher = Launcher(kernel.interface, kernel.ptx)  # the kernel's own has plans of other shapes, too
    launcher(tensors)
    known = next(iter(launcher._known.values())).prepared
    bound = bind(kernel.interface, tensors)
    maps = [value for value in values_of(kernel.interface, bound) if isinstance(value, TensorMapValue)]
    frame = known.kernel._frame(known.plan.programmatic)
    generator = random.Random(0)
    memory = torch.empty(256 * _MEGABYTE, dtype=torch.uint8, device=DEVICE)
    wrong = tried = 0
    for _ in range(1000):
        addresses = [memory.data_ptr() + 16 * generator.randrange(0, 16 * _MEGABYTE) for _ in tensors]
        frame.fill(known.plan, addresses, ())
        for value, (tensor, offset, _) in zip(maps, known.plan.maps, strict=True):
            tried += 1
            wrong += bytes(frame.buffer)[offset : offset + 128] != known.kernel._tensor_map(value, addresses[tensor])
    return {"passed": not wrong, "maps": tried, "wrong": wrong}


def devices(kernel: Any) -> Row:
    """On each device in turn, whichever is current."""
    count, wrong = torch.cuda.device_count(), 0
    for at in range(20 * count):
        with torch.cuda.device((at // 2) % count):
            x, y = (torch.randn(SHAPE, device=f"cuda:{at % count}") for _ in range(2))
            z = torch.empty_like(x)
            torch.cuda.synchronize(at % count)
            kernel(x, y, z)
            torch.cuda.synchronize(at % count)
            wrong += not torch.equal(z, x + y)
    return {"passed": not wrong, "devices": count, "wrong": wrong}
