"""Runs a program: by the simulator, or by the GPU of this machine."""

import ctypes
from dataclasses import replace

import numpy as np
from silicon.program import TARGET, Buffer, Map, Program, outputs

from pipec.diag.message import Sink
from pipec.ptx.assemble import assemble
from pipec.runtime.gpu.cuda_driver import load
from pipec.sim import Argument, ArrayArgument, Im2colMap, Options, TensorMap, TensorMapArgument, launch

# The simulator's names of tensor-map element types -> the driver's.
_DTYPES = {
    "u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "s32": "INT32", "u64": "UINT64", "s64": "INT64", "f16": "FLOAT16",
    "f32": "FLOAT32", "f64": "FLOAT64", "bf16": "BFLOAT16", "f32_ftz": "FLOAT32_FTZ", "tf32": "TFLOAT32", "tf32_ftz": "TFLOAT32_FTZ",
}  # fmt: skip


def simulate(program: Program, options: Options | None = None) -> np.ndarray:
    """The bytes of all outputs."""
    arguments = program.fresh()
    # The programs test a barrier by both parities, to show what a chip answers in each phase.
    options = replace(options or Options(), checks={"phase": "off"})
    launch(
        program.ptx,
        "k",
        grid=program.grid,
        block=(program.threads, 1, 1),
        cluster=program.cluster if program.cluster != (1, 1, 1) else None,
        dynamic_smem=program.shared,
        arguments=[_argument(argument) for argument in arguments],
        options=options,
    )
    return outputs(arguments)


def _argument(argument: Buffer | Map) -> Argument:
    if isinstance(argument, Map):
        return TensorMapArgument(argument.map, argument.data, argument.output)
    return ArrayArgument(argument.data, argument.output or argument.scratch)


def assembled(program: Program) -> bytes:
    """The program's machine code; AssertionError with the assembler's messages."""
    sink = Sink()
    result = assemble(program.ptx, TARGET, sink)
    assert result is not None, [f"{message.title} {message}" for message in sink.diagnostics]
    return result.cubin


class Gpu:
    """Device 0 through the driver. A kernel that faults leaves its process without a usable context."""

    def __init__(self) -> None:
        self.driver = load()
        self.api = self.driver.api
        self._call("cuCtxPushCurrent", self.api.CUcontext(self.driver.primary_context(0)))

    def _call(self, function: str, *arguments):
        return self.driver.call(function, *arguments, kernel="k", doing="a silicon program")

    def version(self) -> int:
        return int(self._call("cuDriverGetVersion"))

    def run(self, program: Program, code: bytes) -> np.ndarray:
        """The bytes of all outputs."""
        arguments = program.fresh()
        module = self._call("cuModuleLoadData", code)
        function = self._call("cuModuleGetFunction", module, b"k")
        attribute = self.api.CUfunction_attribute
        self._call("cuFuncSetAttribute", function, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, program.shared)
        addresses = [self._upload(argument.data) for argument in arguments]
        blocks = [
            address.to_bytes(8, "little") if isinstance(argument, Buffer) else self._encode(argument.map, address)
            for argument, address in zip(arguments, addresses, strict=True)
        ]
        self._launch(function, program, blocks)
        for argument, address in zip(arguments, addresses, strict=True):
            if argument.output:
                self._call("cuMemcpyDtoH", argument.data.ctypes.data, address, argument.data.nbytes)
            self._call("cuMemFree", address)
        self._call("cuModuleUnload", module)
        return outputs(arguments)

    def _upload(self, data: np.ndarray) -> int:
        address = int(self._call("cuMemAlloc", data.nbytes))
        self._call("cuMemcpyHtoD", address, data.ctypes.data, data.nbytes)
        return address

    def _launch(self, function, program: Program, blocks: list[bytes]) -> None:
        buffer = ctypes.create_string_buffer(128 * len(blocks) + 64)
        base = -(-ctypes.addressof(buffer) // 64) * 64
        for number, block in enumerate(blocks):
            ctypes.memmove(base + 128 * number, block, len(block))
        pointers = (ctypes.c_void_p * max(1, len(blocks)))(*(base + 128 * number for number in range(len(blocks))))
        config = self.api.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = program.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = program.threads, 1, 1
        config.sharedMemBytes = program.shared
        if program.cluster != (1, 1, 1):
            attribute = self.api.CUlaunchAttribute()
            attribute.id = self.api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            size = attribute.value.clusterDim
            size.x, size.y, size.z = program.cluster
            config.attrs, config.numAttrs = [attribute], 1
        self._call("cuLaunchKernelEx", config, function, ctypes.addressof(pointers), 0)
        self._call("cuCtxSynchronize")

    def _encode(self, tensor_map: TensorMap | Im2colMap, address: int) -> bytes:
        """The 128 bytes of cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col."""
        api, rank = self.api, tensor_map.rank
        if isinstance(tensor_map, Im2colMap):
            function = "cuTensorMapEncodeIm2col"
            box = [list(tensor_map.lower), list(tensor_map.upper), tensor_map.channels, tensor_map.pixels]
        else:
            function, box = "cuTensorMapEncodeTiled", [[api.cuuint32_t(extent) for extent in tensor_map.box]]
        encoded = self._call(
            function,
            getattr(api.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_DTYPES[tensor_map.dtype]}"),
            rank,
            address,
            [api.cuuint64_t(extent) for extent in tensor_map.dims],
            [api.cuuint64_t(stride) for stride in tensor_map.strides or (0,)],  # not read for rank 1, but refused when empty
            *box,
            [api.cuuint32_t(step) for step in tensor_map.element_strides or (1,) * rank],
            getattr(api.CUtensorMapInterleave, f"CU_TENSOR_MAP_INTERLEAVE_{tensor_map.interleave.upper()}"),
            getattr(api.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{tensor_map.swizzle.upper()}"),
            api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            api.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
            if tensor_map.fill == "nan"
            else api.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        return ctypes.string_at(int(encoded.getPtr()), 128)
