"""cuBLASLt through ctypes: every algorithm that its heuristic offers for a matrix product, each to be timed by itself.

`torch.matmul` runs the first suggestion of that heuristic. A fair opponent is the fastest of all of them, found by measurement, as a
user of cuBLASLt would find it. Constants and structures are those of cublasLt.h and library_types.h of CUDA 13.1.

The product is D[M, N] = A[M, K] @ B[N, K].T with rows without gaps. cuBLASLt thinks in columns: a matrix of M rows is to it one of
M columns, transposed. So it is asked for D' = B'.T @ A' with B' (K x N) first and transposed and A' (K x M) second.
"""

import ctypes
from collections.abc import Iterator, Sequence
from ctypes import POINTER, Structure, byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

MOST_CANDIDATES = 512  # asked for; the heuristic offers far fewer
WORKSPACES = (
    0,
    32 * 2**20,
    256 * 2**20,
)  # bytes; torch gives cuBLAS 32 MiB on Hopper. Less workspace brings other algorithms forward.


class DataType(IntEnum):
    """cudaDataType"""

    F32 = 0
    BF16 = 14
    E4M3 = 28


class _Compute(IntEnum):
    """cublasComputeType_t"""

    F32 = 68


class _Description(IntEnum):
    """cublasLtMatmulDescAttributes_t"""

    TRANSPOSE_A = 3
    TRANSPOSE_B = 4
    EPILOGUE = 7
    BIAS = 8
    SCALE_A = 17
    SCALE_B = 18
    FAST_ACCUMULATION = 25
    SCALES_OF_A = 31
    SCALES_OF_B = 32


class _Scales(IntEnum):
    """cublasLtMatmulMatrixScale_t: one number for a matrix if nothing is said."""

    ROW_OF_128 = 4
    BLOCK_OF_128_BY_128 = 5


class Epilogue(IntEnum):
    """cublasLtEpilogue_t; gelu is the form with tanh."""

    GELU_BIAS = 36


class _Preference(IntEnum):
    """cublasLtMatmulPreferenceAttributes_t"""

    MOST_WORKSPACE = 1


class _Transpose(IntEnum):
    """cublasOperation_t"""

    NO = 0
    YES = 1


class Configuration(IntEnum):
    """cublasLtMatmulAlgoConfigAttributes_t: what tells one algorithm from another."""

    ALGORITHM = 0
    TILE = 1
    SPLIT_K = 2
    REDUCTION = 3
    SWIZZLE = 4
    CUSTOM = 5
    STAGES = 6
    INNER_SHAPE = 7
    CLUSTER = 8


_NARROW = (Configuration.INNER_SHAPE, Configuration.CLUSTER)  # uint16_t; all others have four bytes


class Algorithm(Structure):
    """cublasLtMatmulAlgo_t: opaque, may be copied."""

    _fields_ = (("data", c_uint64 * 8),)


class HeuristicResult(Structure):
    """cublasLtMatmulHeuristicResult_t"""

    _fields_ = (
        ("algorithm", Algorithm),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


# Function -> types of its arguments; all return cublasStatus_t.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cublasLtCreate": (POINTER(c_void_p),),
    "cublasLtDestroy": (c_void_p,),
    "cublasLtMatmulDescCreate": (POINTER(c_void_p), c_int, c_int),
    "cublasLtMatmulDescSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulDescDestroy": (c_void_p,),
    "cublasLtMatrixLayoutCreate": (POINTER(c_void_p), c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatrixLayoutDestroy": (c_void_p,),
    "cublasLtMatmulPreferenceCreate": (POINTER(c_void_p),),
    "cublasLtMatmulPreferenceSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulPreferenceDestroy": (c_void_p,),
    "cublasLtMatmulAlgoGetHeuristic": (
        *(c_void_p,) * 7,  # handle, description, layouts of A, B, C and D, preference
        c_int,
        POINTER(HeuristicResult),
        POINTER(c_int),
    ),
    "cublasLtMatmulAlgoConfigGetAttribute": (POINTER(Algorithm), c_int, c_void_p, c_size_t, POINTER(c_size_t)),
    "cublasLtMatmul": (
        c_void_p,  # handle
        c_void_p,  # description
        c_void_p,  # alpha
        *(c_void_p, c_void_p) * 2,  # A and its layout, B and its layout
        c_void_p,  # beta
        *(c_void_p, c_void_p) * 2,  # C and its layout, D and its layout
        POINTER(Algorithm),
        c_void_p,  # workspace
        c_size_t,
        c_void_p,  # stream
    ),
}


class CublasError(RuntimeError):
    """A call that cuBLASLt refused; `status` is its cublasStatus_t."""

    def __init__(self, function: str, status: int) -> None:
        super().__init__(f"{function} returned status {status}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Candidate:
    """One algorithm for one product; `workspace` in bytes, `rank` its place in the heuristic's list."""

    name: str
    algorithm: Algorithm
    workspace: int
    rank: int


class CublasLt:
    """The library with a handle of its own, for the current device. `library` is a ctypes.CDLL, or in tests something like one."""

    def __init__(self, library: Any) -> None:
        self._library = library
        for name, types in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = types, c_int
        library.cublasLtGetVersion.restype = c_size_t
        self.version = int(library.cublasLtGetVersion())
        self.handle = c_void_p()
        self.call("cublasLtCreate", byref(self.handle))

    @staticmethod
    def of_process() -> "CublasLt":
        """The library that torch has loaded."""
        with open("/proc/self/maps", encoding="utf-8") as maps:
            found = {line.split()[-1] for line in maps if "libcublasLt.so" in line}
        if not found:
            raise RuntimeError("no libcublasLt is loaded in this process: run a torch.matmul on the GPU first")
        return CublasLt(ctypes.CDLL(min(found)))

    def call(self, function: str, *arguments: Any) -> None:
        """Raises CublasError unless the function returns success."""
        status = getattr(self._library, function)(*arguments)
        if status:
            raise CublasError(function, status)


class Product:
    """D[M, N] = A[M, K] @ B[N, K].T for one size and element type; D is bfloat16, sums are float32.

    `scales` are device addresses of a float32 each for 8-bit operands, A's and B's; 8-bit products accumulate fast, as torch asks for
    with `use_fast_accum`. If `blockwise`, there is one scale for each row of A and 128 elements of K, K blocks by rows, and one for each
    128 x 128 elements of B, blocks of rows by K blocks, and products are added up in full. `bias` is the device address of N bfloat16
    numbers, to be added before gelu, or 0 for the product alone.
    """

    def __init__(
        self,
        library: CublasLt,
        m: int,
        n: int,
        k: int,
        operands: DataType,
        scales: tuple[int, int] | None = None,
        bias: int = 0,
        blockwise: bool = False,
    ) -> None:
        self._library = library
        self._one, self._zero = c_float(1.0), c_float(0.0)
        self._description = c_void_p()
        library.call("cublasLtMatmulDescCreate", byref(self._description), _Compute.F32, DataType.F32)
        self._describe(_Description.TRANSPOSE_A, c_int32(_Transpose.YES))
        self._describe(_Description.TRANSPOSE_B, c_int32(_Transpose.NO))
        if scales is not None:
            self._describe(_Description.SCALE_A, c_void_p(scales[1]))  # its first operand is our B
            self._describe(_Description.SCALE_B, c_void_p(scales[0]))
            self._describe(_Description.FAST_ACCUMULATION, ctypes.c_int8(not blockwise))
        if blockwise:
            self._describe(_Description.SCALES_OF_A, c_int32(_Scales.BLOCK_OF_128_BY_128))  # of our B
            self._describe(_Description.SCALES_OF_B, c_int32(_Scales.ROW_OF_128))
        if bias:
            self._describe(_Description.EPILOGUE, c_int32(Epilogue.GELU_BIAS))
            self._describe(_Description.BIAS, c_void_p(bias))
        self._first = self._layout(operands, k, n)
        self._second = self._layout(operands, k, m)
        self._result = self._layout(DataType.BF16, n, m)

    def _describe(self, attribute: _Description, value: Any) -> None:
        self._library.call("cublasLtMatmulDescSetAttribute", self._description, attribute, byref(value), sizeof(value))

    def _layout(self, kind: DataType, rows: int, columns: int) -> c_void_p:
        """A matrix whose columns lie one behind the other."""
        layout = c_void_p()
        self._library.call("cublasLtMatrixLayoutCreate", byref(layout), kind, rows, columns, rows)
        return layout

    def candidates(self, workspaces: Sequence[int] = WORKSPACES, most: int = MOST_CANDIDATES) -> list[Candidate]:
        """Every algorithm offered under any of the workspace limits, each once, in the heuristic's order."""
        found: dict[bytes, Candidate] = {}
        for limit in workspaces:
            for rank, result in enumerate(self._offered(limit, most)):
                key = bytes(result.algorithm)
                if key not in found:
                    algorithm = Algorithm.from_buffer_copy(key)
                    found[key] = Candidate(self._name(algorithm), algorithm, result.workspace, rank)
        return list(_named_apart(found.values()))

    def _offered(self, workspace: int, most: int) -> list[HeuristicResult]:
        preference, limit = c_void_p(), c_uint64(workspace)
        self._library.call("cublasLtMatmulPreferenceCreate", byref(preference))
        results, count = (HeuristicResult * most)(), c_int()
        layouts = self._first, self._second, self._result, self._result
        try:
            self._library.call(
                "cublasLtMatmulPreferenceSetAttribute", preference, _Preference.MOST_WORKSPACE, byref(limit), sizeof(limit)
            )
            self._library.call(
                "cublasLtMatmulAlgoGetHeuristic",
                self._library.handle,
                self._description,
                *layouts,
                preference,
                most,
                results,
                byref(count),
            )
        except CublasError as error:
            if error.status != _NOT_SUPPORTED:
                raise
            return []
        finally:
            self._library.call("cublasLtMatmulPreferenceDestroy", preference)
        return [result for result in results[: count.value] if result.state == 0]

    def _name(self, algorithm: Algorithm) -> str:
        parts = {attribute: self._configuration(algorithm, attribute) for attribute in Configuration}
        words = [f"{attribute.name.lower()}={value}" for attribute, value in parts.items() if value]
        return " ".join(words) or "algorithm=0"

    def _configuration(self, algorithm: Algorithm, attribute: Configuration) -> int:
        value: Any = ctypes.c_uint16() if attribute in _NARROW else c_uint32()
        written = c_size_t()
        try:
            self._library.call(
                "cublasLtMatmulAlgoConfigGetAttribute",
                byref(algorithm),
                attribute,
                byref(value),
                sizeof(value),
                byref(written),
            )
        except CublasError:
            return 0  # an attribute that this version does not know
        return int(value.value)

    def run(self, candidate: Candidate, a: int, b: int, d: int, workspace: int, size: int, stream: int) -> None:
        """Launches; `a`, `b`, `d` and `workspace` are device addresses, `size` the bytes of the workspace."""
        self._library.call(
            "cublasLtMatmul",
            self._library.handle,
            self._description,
            byref(self._one),
            b,
            self._first,
            a,
            self._second,
            byref(self._zero),
            d,
            self._result,
            d,
            self._result,
            byref(candidate.algorithm),
            workspace,
            size,
            stream,
        )

    def close(self) -> None:
        for layout in (self._first, self._second, self._result):
            self._library.call("cublasLtMatrixLayoutDestroy", layout)
        self._library.call("cublasLtMatmulDescDestroy", self._description)


_NOT_SUPPORTED = 15  # CUBLAS_STATUS_NOT_SUPPORTED: the heuristic has nothing under these limits


def _named_apart(candidates: Any) -> Iterator[Candidate]:
    """Names as they are, and with a number where two algorithms differ in what no attribute tells."""
    seen: dict[str, int] = {}
    for one in candidates:
        seen[one.name] = seen.get(one.name, 0) + 1
        name = one.name if seen[one.name] == 1 else f"{one.name} #{seen[one.name]}"
        yield Candidate(name, one.algorithm, one.workspace, one.rank)
