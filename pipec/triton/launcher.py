"""Launches one Triton kernel: its arguments as Triton 3.9 passes them to a GPU (triton/backends/nvidia/driver.py).

A descriptor is its tensor map, then its sizes as 32-bit and its strides in elements as 64-bit numbers; without a map (before Hopper's
layouts are chosen) it is a pointer and numbers. The kernel's own arguments are followed by pointers to global and to profile scratch
memory.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from triton.runtime import _allocation
from triton.runtime import driver as active

from pipec.host.tensors import memory_of
from pipec.sim import Argument, ArrayArgument, Im2colMap, ScalarArgument, SimulationError, TensorMap, TensorMapArgument, launch

# Triton numbers element types like tensormap.replace (PTX ISA 9.7.9.26).
_ELEMENT_TYPES = {
    0: "u8", 1: "u16", 2: "u32", 3: "s32", 4: "u64", 5: "s64", 6: "f16", 7: "f32", 8: "f32_ftz", 9: "f64", 10: "bf16", 13: "b4x16",
    14: "b4x16_p64",
}  # fmt: skip
_SWIZZLES = ("none", "32B", "64B", "128B")
_FORMATS = {
    "i1": "<b", "u1": "<B", "i8": "<b", "u8": "<B", "i16": "<h", "u16": "<H", "i32": "<i", "u32": "<I", "i64": "<q", "u64": "<Q",
    "fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d",
}  # fmt: skip
_SCRATCH = ScalarArgument(bytes(8))

Hook = Callable[[Any], None]


class Parameters:
    """The parameters of one launch; `memory`: the allocations that their pointers refer to."""

    def __init__(self, descriptors: Sequence[Mapping[str, Any]] | None) -> None:
        self.memory: list[np.ndarray[Any, Any]] = []
        self._kept: list[Any] = []  # scratch memory has no other owner, and the memory above is known by its address only
        self._descriptors = iter(descriptors) if descriptors else None

    def of(self, kind: Any, value: Any, name: str = "") -> Iterator[Argument]:
        """`name`: of the kernel's parameter."""
        if isinstance(kind, tuple):
            for number, (inner, part) in enumerate(zip(kind, value, strict=True)):
                yield from self.of(inner, part, f"{name}[{number}]")
        elif kind == "constexpr":
            pass
        elif kind.startswith("tensordesc"):
            yield from self._descriptor(value, name)
        elif kind.startswith("*"):
            yield self.pointer(value, name)
        else:
            yield _scalar(kind, value)

    def pointer(self, value: Any, name: str = "") -> Argument:
        """For a tensor, wherever in its allocation it starts; a number is an address, as in Triton."""
        if value is None or isinstance(value, int):
            return ScalarArgument(struct.pack("<Q", value or 0))
        size = value.numel() if callable(getattr(value, "numel", None)) else 1
        if size == 0:
            return ScalarArgument(struct.pack("<Q", value.data_ptr()))
        return ArrayArgument(self._first_byte(value), name=name)

    def _first_byte(self, value: Any) -> np.ndarray[Any, Any]:
        memory = memory_of(value)
        self._kept.append(value)
        self.memory.append(memory)
        return memory[value.data_ptr() - memory.ctypes.data :][:1]

    def _descriptor(self, value: Any, name: str) -> Iterator[Argument]:
        shape, strides = [int(size) for size in value.shape], [int(stride) for stride in value.strides]
        if self._descriptors is None:
            yield self.pointer(value.base, name)
            yield from (_scalar("i64", number) for number in (*shape, *strides))
            yield from (_scalar("i1", flag) for flag in (value.padding == "nan", value.round_f32_to_tf32))
        else:
            meta = next(self._descriptors)
            make = _im2col_map if meta.get("is_im2col") else _tiled_map
            yield TensorMapArgument(make(value, meta, shape, strides), self._first_byte(value.base), name=name)
        yield from (_scalar("i32", size) for size in shape)
        yield from (_scalar("i64", stride) for stride in strides)


def _scalar(kind: str, value: Any) -> ScalarArgument:
    if kind == "bf16":
        return ScalarArgument(np.asarray(value, ml_dtypes.bfloat16).tobytes())
    return ScalarArgument(struct.pack(_FORMATS[kind], value))


def _common(value: Any, meta: Mapping[str, Any], shape: list[int], strides: list[int]) -> dict[str, Any]:
    bytes_ = meta["elem_size"]
    return {
        "dtype": "tf32" if value.round_f32_to_tf32 else _ELEMENT_TYPES[meta["elem_type"]],
        "dims": (shape[-1] * (2 if meta["fp4_padded"] else 1), *reversed(shape[:-1])),
        "strides": tuple(stride * bytes_ for stride in reversed(strides[:-1])),
        "swizzle": _SWIZZLES[meta["swizzle"]],
        "fill": value.padding,
    }


def _tiled_map(value: Any, meta: Mapping[str, Any], shape: list[int], strides: list[int]) -> TensorMap:
    return TensorMap(**_common(value, meta, shape, strides), box=tuple(reversed(meta["block_size"])))


def _im2col_map(value: Any, meta: Mapping[str, Any], shape: list[int], strides: list[int]) -> Im2colMap:
    pixels, channels = meta["block_size"]
    steps = value.element_strides
    return Im2colMap(
        **_common(value, meta, shape, strides),
        lower=tuple(reversed(value.pixel_box_lower_corner)),
        upper=tuple(reversed(value.pixel_box_upper_corner)),
        channels=channels,
        pixels=pixels,
        element_strides=None if steps is None else tuple(reversed(steps)),
    )


class Launcher:
    """The object that Triton creates for a compiled kernel, and calls for each launch."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self._signature = dict(source.signature)
        self._metadata = metadata

    def __call__(
        self, x: int, y: int, z: int, stream: Any, function: Any, packed: Any, launch_metadata: Any, enter: Hook | None,
        leave: Hook | None, *arguments: Any,
    ) -> None:  # fmt: skip
        """Runs the kernel to its end. Raises SimulationError."""
        if enter is not None:
            enter(launch_metadata)
        if x * y * z > 0:
            try:
                self._run((x, y, z), stream, function, arguments)
            except SimulationError as error:
                error.details.setdefault("kernel", function.name)
                show_printed(error.printed)
                raise
        if leave is not None:
            leave(launch_metadata)

    def _run(self, grid: tuple[int, int, int], stream: Any, function: Any, arguments: Sequence[Any]) -> None:
        driver, metadata = active.active, self._metadata
        parameters = Parameters(getattr(metadata, "tensordesc_meta", None))
        given = zip(self._signature.items(), arguments, strict=True)
        flat = [one for (name, kind), value in given for one in parameters.of(kind, value, str(name))]
        count = grid[0] * grid[1] * grid[2] * metadata.num_ctas
        for size, alignment, allocator in (
            (metadata.global_scratch_size, metadata.global_scratch_align, _allocation._allocator),
            (metadata.profile_scratch_size, metadata.profile_scratch_align, _allocation._profile_allocator),
        ):
            flat.append(parameters.pointer(allocator.get()(count * size, alignment, stream)) if size else _SCRATCH)
        result = launch(
            function.ptx,
            function.name,
            grid=(grid[0] * metadata.num_ctas, *grid[1:]),
            block=32 * metadata.num_warps,
            cluster=metadata.num_ctas if metadata.num_ctas > 1 else None,
            cooperative=bool(metadata.launch_cooperative_grid),
            programmatic=driver.stream.begins(bool(metadata.launch_pdl)),
            dynamic_smem=metadata.shared,
            arguments=flat,
            allocations=[*parameters.memory, *driver.beside()],
            options=driver.options,
        )
        show_printed(result.printed)
        driver.ended(result)


def show_printed(lines: Sequence[str]) -> None:
    """Writes the output of a kernel's `printf` to Python's standard output."""
    for line in lines:
        print(line, end="" if line.endswith("\n") else "\n", flush=True)
