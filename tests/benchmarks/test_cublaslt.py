"""benchmarks/gemm/cublaslt.py against a library in its place: what C would find behind the pointers, read by formats written down here.

The formats and prototypes were taken from cublasLt.h anew, not from the module: LP64, natural alignment.
"""

import ctypes
import struct
from ctypes import CFUNCTYPE, c_int, c_int64, c_size_t, c_uint64, c_void_p, string_at
from typing import Any

import pytest

from benchmarks.gemm import cublaslt
from benchmarks.gemm.cublaslt import Algorithm, CublasError, CublasLt, DataType, HeuristicResult, Product

RESULT = struct.Struct("<64sQif16x")  # algo, workspaceSize, state, wavesCount, reserved[4]
WIDTHS = {3: 4, 4: 4, 17: 8, 18: 8, 25: 1, 31: 4, 32: 4}  # of a description's attributes, in bytes


def test_structures_have_the_size_and_offsets_of_the_header() -> None:
    """As gcc gives them for cublasLt.h of CUDA 13.1."""
    assert ctypes.sizeof(HeuristicResult) == RESULT.size == 96
    fields = ("algorithm", "workspace", "state", "waves", "reserved")
    assert [getattr(HeuristicResult, name).offset for name in fields] == [0, 64, 72, 76, 80]
    assert ctypes.sizeof(Algorithm) == 64


class FakeLibrary:
    """Functions with C's calling convention. Handles are numbers; what is set or asked is written down.

    `offers`: workspace limit -> (algorithm's first byte, workspace, state) in the heuristic's order.
    """

    def __init__(self, offers: dict[int, list[tuple[int, int, int]]]) -> None:
        self.offers = offers
        self.descriptions: dict[int, dict[int, bytes]] = {}
        self.layouts: dict[int, tuple[int, ...]] = {}
        self.limits: dict[int, int] = {}
        self.launched: list[tuple[Any, ...]] = []
        self.alive: set[int] = set()
        self._handles = iter(range(0x1000, 0x10000, 16))
        pointer, status = c_void_p, c_int
        self.cublasLtGetVersion = CFUNCTYPE(c_size_t)(lambda: 130101)
        self.cublasLtCreate = CFUNCTYPE(status, pointer)(self._handle)
        self.cublasLtDestroy = CFUNCTYPE(status, pointer)(self._destroy)
        self.cublasLtMatmulDescCreate = CFUNCTYPE(status, pointer, c_int, c_int)(self._description)
        self.cublasLtMatmulDescSetAttribute = CFUNCTYPE(status, pointer, c_int, pointer, c_size_t)(self._describe)
        self.cublasLtMatmulDescDestroy = CFUNCTYPE(status, pointer)(self._destroy)
        self.cublasLtMatrixLayoutCreate = CFUNCTYPE(status, pointer, c_int, c_uint64, c_uint64, c_int64)(self._layout)
        self.cublasLtMatrixLayoutDestroy = CFUNCTYPE(status, pointer)(self._destroy)
        self.cublasLtMatmulPreferenceCreate = CFUNCTYPE(status, pointer)(self._handle)
        self.cublasLtMatmulPreferenceSetAttribute = CFUNCTYPE(status, pointer, c_int, pointer, c_size_t)(self._prefer)
        self.cublasLtMatmulPreferenceDestroy = CFUNCTYPE(status, pointer)(self._destroy)
        self.cublasLtMatmulAlgoGetHeuristic = CFUNCTYPE(status, *[pointer] * 7, c_int, pointer, pointer)(self._heuristic)
        self.cublasLtMatmulAlgoConfigGetAttribute = CFUNCTYPE(status, pointer, c_int, pointer, c_size_t, pointer)(
            self._configuration
        )
        self.cublasLtMatmul = CFUNCTYPE(status, *[pointer] * 14, c_size_t, pointer)(self._matmul)

    def _handle(self, out: int) -> int:
        handle = next(self._handles)
        ctypes.memmove(out, struct.pack("<Q", handle), 8)
        self.alive.add(handle)
        return 0

    def _destroy(self, handle: int) -> int:
        self.alive.remove(handle)
        return 0

    def _description(self, out: int, compute: int, scale: int) -> int:
        assert (compute, scale) == (68, 0)  # CUBLAS_COMPUTE_32F, CUDA_R_32F
        self._handle(out)
        self.descriptions[struct.unpack("<Q", string_at(out, 8))[0]] = {}
        return 0

    def _describe(self, description: int, attribute: int, value: int, size: int) -> int:
        assert size == WIDTHS[attribute]
        self.descriptions[description][attribute] = string_at(value, size)
        return 0

    def _layout(self, out: int, kind: int, rows: int, columns: int, leading: int) -> int:
        self._handle(out)
        self.layouts[struct.unpack("<Q", string_at(out, 8))[0]] = (kind, rows, columns, leading)
        return 0

    def _prefer(self, preference: int, attribute: int, value: int, size: int) -> int:
        assert (attribute, size) == (1, 8)  # CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
        self.limits[preference] = struct.unpack("<Q", string_at(value, 8))[0]
        return 0

    def _heuristic(
        self, handle: int, description: int, a: int, b: int, c: int, d: int, preference: int, most: int, out: int, count: int
    ) -> int:
        self.asked = self.descriptions[description], *(self.layouts[layout] for layout in (a, b, c, d))
        offered = self.offers.get(self.limits[preference])
        if offered is None:
            return 15  # CUBLAS_STATUS_NOT_SUPPORTED
        assert len(offered) <= most
        for index, (first, workspace, state) in enumerate(offered):
            packed = RESULT.pack(bytes([first]) * 64, workspace, state, 1.0)
            ctypes.memmove(out + index * RESULT.size, packed, RESULT.size)
        ctypes.memmove(count, struct.pack("<i", len(offered)), 4)
        return 0

    def _configuration(self, algorithm: int, attribute: int, value: int, size: int, written: int) -> int:
        wanted = 2 if attribute in (7, 8) else 4  # inner shape and cluster shape are uint16_t
        assert size == wanted
        if attribute == 7:
            return 7  # CUBLAS_STATUS_INVALID_VALUE: a version that does not know it
        number = {0: 66, 1: string_at(algorithm, 1)[0], 8: 3}.get(attribute, 0)
        ctypes.memmove(value, number.to_bytes(size, "little"), size)
        ctypes.memmove(written, struct.pack("<Q", size), 8)
        return 0

    def _matmul(self, *arguments: Any) -> int:
        _, description, alpha, a, of_a, b, of_b, beta, c, of_c, d, of_d, algorithm, workspace, size, stream = arguments
        scalars = struct.unpack("<f", string_at(alpha, 4)) + struct.unpack("<f", string_at(beta, 4))
        layouts = tuple(self.layouts[one] for one in (of_a, of_b, of_c, of_d))
        self.launched.append((scalars, (a, b, c, d), layouts, string_at(algorithm, 64), workspace, size, stream))
        assert description in self.descriptions
        return 0


OFFERS = {0: [(1, 0, 0), (2, 0, 0)], 32 * 2**20: [(3, 4096, 0), (1, 0, 0), (9, 0, 15)]}


@pytest.fixture
def fake() -> FakeLibrary:
    return FakeLibrary(OFFERS)


def test_a_product_of_rows_is_asked_for_as_one_of_columns(fake: FakeLibrary) -> None:
    """D[100, 200] = A[100, 304] @ B[200, 304].T: B' (304 x 200) transposed times A' (304 x 100) gives D' (200 x 100)."""
    Product(CublasLt(fake), 100, 200, 304, DataType.BF16).candidates()
    description, first, second, c, d = fake.asked
    assert description == {3: struct.pack("<i", 1), 4: struct.pack("<i", 0)}
    assert first == (14, 304, 200, 304) and second == (14, 304, 100, 304) and c == d == (14, 200, 100, 200)


def test_scales_of_bytes_go_to_the_operand_they_belong_to(fake: FakeLibrary) -> None:
    Product(CublasLt(fake), 16, 32, 64, DataType.E4M3, (0xAAAA0000, 0xBBBB0000)).candidates()
    description, first, second, _, d = fake.asked
    assert struct.unpack("<Q", description[17])[0] == 0xBBBB0000  # scale of its A, which is our B
    assert struct.unpack("<Q", description[18])[0] == 0xAAAA0000
    assert description[25] == b"\1"
    assert first[0] == second[0] == 28 and d[0] == 14
    assert not description.keys() & {31, 32}


def test_scales_by_blocks_are_of_b_and_those_by_rows_of_a(fake: FakeLibrary) -> None:
    Product(CublasLt(fake), 16, 32, 64, DataType.E4M3, (0xAAAA0000, 0xBBBB0000), blockwise=True).candidates()
    description = fake.asked[0]
    assert struct.unpack("<i", description[31])[0] == 5  # CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F, of its A, which is our B
    assert struct.unpack("<i", description[32])[0] == 4  # CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
    assert description[25] == b"\0"


def test_candidates_of_all_workspaces_each_once(fake: FakeLibrary) -> None:
    found = Product(CublasLt(fake), 128, 128, 128, DataType.BF16).candidates()
    assert [bytes(one.algorithm)[0] for one in found] == [1, 2, 3]  # 9 has a state that is no success
    assert [one.workspace for one in found] == [0, 0, 4096]
    assert [one.rank for one in found] == [0, 1, 0]
    assert found[0].name == "algorithm=66 tile=1 cluster=3"
    assert sorted(fake.limits.values()) == sorted(cublaslt.WORKSPACES)


def test_two_algorithms_of_one_name_are_distinguished() -> None:
    offers = {0: [(1, 0, 0)]}
    fake = FakeLibrary(offers)
    fake.cublasLtMatmulAlgoConfigGetAttribute = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, c_size_t, c_void_p)(lambda *_: 7)
    offers[0] = [(1, 0, 0), (2, 0, 0)]
    names = [one.name for one in Product(CublasLt(fake), 8, 8, 8, DataType.BF16).candidates()]
    assert len(set(names)) == 2


def test_a_launch_passes_everything_in_its_place(fake: FakeLibrary) -> None:
    product = Product(CublasLt(fake), 100, 200, 304, DataType.BF16)
    chosen = product.candidates()[2]
    high = 0x7F00_0000_0000  # device addresses do not fit in 32 bits
    product.run(chosen, high + 1, high + 2, high + 3, high + 4, 2**33, high + 5)
    scalars, addresses, layouts, algorithm, workspace, size, stream = fake.launched[0]
    assert scalars == (1.0, 0.0)
    assert addresses == (high + 2, high + 1, high + 3, high + 3)
    assert [row[1:3] for row in layouts] == [(304, 200), (304, 100), (200, 100), (200, 100)]
    assert algorithm == b"\3" * 64 and (workspace, size, stream) == (high + 4, 2**33, high + 5)


def test_everything_is_given_back(fake: FakeLibrary) -> None:
    library = CublasLt(fake)
    product = Product(library, 8, 8, 8, DataType.BF16)
    product.candidates()
    product.close()
    assert fake.alive == {library.handle.value}


def test_a_refusal_names_the_function(fake: FakeLibrary) -> None:
    fake.cublasLtMatmul = CFUNCTYPE(c_int, *[c_void_p] * 14, c_size_t, c_void_p)(lambda *_: 13)
    product = Product(CublasLt(fake), 8, 8, 8, DataType.BF16)
    with pytest.raises(CublasError, match="cublasLtMatmul returned status 13"):
        product.run(product.candidates()[0], 0, 0, 0, 0, 0, 0)
