"""ldmatrix and stmatrix of bytes, against layouts as CuTe writes them: which bit of a whole each bit of an address or a register is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pipec.sim import SimulationError, launch

from .test_small_forms import HEAD

Layout = tuple[tuple[int, ...], tuple[int, ...]]  # extents and strides, the first one fastest


def numbers(layout: Layout) -> np.ndarray:
    extents, strides = layout
    every = itertools.product(*(range(extent) for extent in reversed(extents)))
    return np.array([sum(index * stride for index, stride in zip(reversed(place), strides, strict=True)) for place in every])


# By form: which bit of the whole the first bit is that a lane addresses, and that its registers hold; and bytes of its registers.
LOADS = {
    "m8n16.x1": (((8, 4), (128, 0)), ((32,), (32,)), ((4,), (8,))),
    "m8n16.x2": (((16, 2), (128, 0)), ((32,), (32,)), ((4, 2), (8, 1024))),
    "m8n16.x4": (((32,), (128,)), ((32,), (32,)), ((4, 4), (8, 1024))),
    "m16n16.x1.trans": (((2, 2, 4, 2), (128, 1024, 256, 0)), ((4, 8), (256, 8)), ((2, 2, 2), (128, 64, 1024))),
    "m16n16.x2.trans": (((2, 2, 4, 2), (128, 1024, 256, 2048)), ((4, 8), (256, 8)), ((2, 2, 4), (128, 64, 1024))),
}
# CuTe's layouts of m16n16 are those after it has put these bytes of each two registers side by side (SM100_U8x16_LDSM_T).
REARRANGED = np.array([0, 1, 4, 5, 2, 3, 6, 7])
STORES = {
    "m16n8.x1.trans": (((8, 4), (128, 0)), ((4, 8), (256, 8)), ((2, 2), (128, 64))),
    "m16n8.x2.trans": (((16, 2), (128, 0)), ((4, 8), (256, 8)), ((2, 2, 2), (128, 64, 1024))),
    "m16n8.x4.trans": (((32,), (128,)), ((4, 8), (256, 8)), ((2, 2, 4), (128, 64, 1024))),
}


def run(body: str, given: np.ndarray, out: np.ndarray) -> None:
    """Lane t has row 5 * t of shared memory, modulo 32 of them, and its own 16 bytes of both arrays."""
    text = f"""{HEAD}.entry k(.param .u64 given, .param .u64 out) .reqntid 32 {{ .reg .b32 %t, %row, %own, %r<5>; .reg .b64 %in, %out, %x;
    .shared .align 16 .b8 rows[512]; ld.param.u64 %in, [given]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
    mul.wide.u32 %x, %t, 16; add.s64 %in, %in, %x; add.s64 %out, %out, %x;
    mov.b32 %row, rows; mad.lo.u32 %own, %t, 16, %row; mul.lo.u32 %t, %t, 5; and.b32 %t, %t, 31; mad.lo.u32 %row, %t, 16, %row;
    ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%in]; {body} ret; }}"""
    launch(text, arguments=[given, out])


ROWS = 5 * np.arange(32) % 32
TO_SHARED = (
    "st.shared.v4.b32 [%own], {%r1, %r2, %r3, %r4}; bar.sync 0; mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0; mov.b32 %r4, 0;"
)


def registers(count: int) -> str:
    return f"{{{', '.join(f'%r{number + 1}' for number in range(count))}}}"


# Whole bytes are only loaded transposed.
KINDS = ("b8", "b8x16.b4x16_p64", "b8x16.b6x16_p32")


@pytest.mark.parametrize(("form", "kind"), [(form, kind) for form in LOADS for kind in KINDS if kind != "b8" or "trans" in form])
def test_loads(form: str, kind: str) -> None:
    source, lanes, bytes_ = LOADS[form]
    count = len(numbers(bytes_)) // 4
    given = np.random.default_rng(0).integers(0, 256, (32, 16)).astype(np.uint8)
    out = np.zeros((32, 16), np.uint8)
    load = (
        f"ldmatrix.sync.aligned.{form}.shared.{kind} {registers(count)}, [%row]; st.global.v4.b32 [%out], {{%r1, %r2, %r3, %r4}};"
    )
    run(TO_SHARED + load, given, out)
    # The bits of a row from the lowest one on, as many for each element.
    bits = int(kind[7]) if "x16" in kind else 8
    packed = np.unpackbits(given, axis=1, bitorder="little")[:, : 16 * bits].reshape(32, 16, bits)
    rows = (packed << np.arange(bits)).sum(axis=2).astype(np.uint8)
    whole = np.zeros(numbers(source).max() // 8 + 16, np.uint8)
    for lane, first in enumerate(numbers(source)):
        # Lanes whose addresses say nothing are those that come back to a place.
        if first not in numbers(source)[:lane]:
            whole[first // 8 : first // 8 + 16] = rows[ROWS[lane]]
    wanted = whole[(numbers(lanes)[:, None] + numbers(bytes_)) // 8]
    got = out[:, : 4 * count]
    if "m16n16" in form:
        got = got.reshape(32, -1, 8)[:, :, REARRANGED].reshape(32, -1)
    np.testing.assert_array_equal(got, wanted)
    assert not out[:, 4 * count :].any()


@pytest.mark.parametrize("form", STORES)
def test_stores(form: str) -> None:
    target, lanes, bytes_ = STORES[form]
    count = len(numbers(bytes_)) // 4
    given, out = np.random.default_rng(1).integers(0, 256, (32, 16)).astype(np.uint8), np.zeros((32, 16), np.uint8)
    zeros = "mov.b32 %t, 0; st.shared.v4.b32 [%own], {%t, %t, %t, %t}; bar.sync 0;"
    store = f"stmatrix.sync.aligned.{form}.shared.b8 [%row], {registers(count)}; bar.sync 0;"
    run(
        f"{zeros}{store} ld.shared.v4.b32 {{%r1, %r2, %r3, %r4}}, [%own]; st.global.v4.b32 [%out], {{%r1, %r2, %r3, %r4}};",
        given,
        out,
    )
    whole = np.zeros(512, np.uint8)
    whole[(numbers(lanes)[:, None] + numbers(bytes_)) // 8] = given[:, : 4 * count]
    wanted = np.zeros((32, 16), np.uint8)
    for lane in range(8 * count):
        first = numbers(target)[lane] // 8
        wanted[ROWS[lane]] = whole[first : first + 16]
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r1, %r2}, [%row];", "needs .trans"),
        ("ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%r1, %r2, %r3, %r4}, [%row];", "at most .x2"),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {%r1, %r2}, [%row];", "needs 1 registers"),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.b8 {%r1}, [%row];", "needs .b8x16"),
        ("stmatrix.sync.aligned.m16n8.x1.trans.shared.b16 [%row], {%r1};", "is of .b8"),
    ],
)
def test_malformed_text(text: str, words: str) -> None:
    with pytest.raises(SimulationError, match=words) as caught:
        run(text, np.zeros((32, 16), np.uint8), np.zeros((32, 16), np.uint8))
    assert caught.value.kind == "malformed"
