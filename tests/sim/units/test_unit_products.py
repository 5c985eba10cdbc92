"""Successive steps of K: which two products are, and in what they differ."""

import pytest

from pipec.record import replace
from pipec.sim.units.layouts import Reading
from pipec.sim.units.products import Accumulator, Columns, Product, Scale, unlike
from pipec.sim.units.tcgen05.descriptors import MatrixDescriptor


def reading(name: str, start: int, layout: str = "128B", mn_major: bool = False, **fields: object) -> Reading:
    descriptor = MatrixDescriptor(start, 4096, 1024, layout)  # type: ignore[arg-type]
    return replace(Reading(name, descriptor, 128, 16, 2, mn_major, "f16"), **fields)


SUM = Accumulator("here", "f32")
# By name the first and the second step of A, by the bytes between them.
STEPS = {
    "along K": (reading("A", 0x1000), reading("A", 0x1020)),
    "along K, 64B": (reading("A", 0x1000, "64B"), reading("A", 0x1020, "64B")),
    "along K, no swizzle": (reading("A", 0x1000, "none"), reading("A", 0x1000 + 2 * 4096, "none")),
    "along M": (reading("A", 0x1000, mn_major=True), reading("A", 0x1000 + 2 * 1024, mn_major=True)),
    "along M, no swizzle": (reading("A", 0, "none", True), reading("A", 2 * 4096, "none", True)),
    "in tensor memory": (Columns(64, 8, "f16"), Columns(72, 8, "f16")),
    "in registers": (None, None),
}
B = reading("B", 0x8000), reading("B", 0x8020)
CHANGES = {
    "the type of the elements": {"format": "bf16"},
    "which dimension is contiguous": {"mn_major": True},
    "the swizzle": {"descriptor": MatrixDescriptor(0x8020, 4096, 1024, "64B")},
    "the stride": {"descriptor": MatrixDescriptor(0x8020, 4096, 512, "128B")},
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_that_are_alike(name: str) -> None:
    first, second = (Product(SUM, a, b) for a, b in zip(STEPS[name], B, strict=True))
    assert unlike(first, second) is None
    for what, fields in CHANGES.items():
        for before, now in (
            (first, replace(second, b=replace(B[1], **fields))),
            (replace(first, b=replace(B[0], **fields)), second),
        ):
            if "descriptor" in fields and before is not first:
                start = replace(fields["descriptor"], start=0x8000)
                before = replace(first, b=replace(B[0], descriptor=start))
            found = unlike(before, now, True)
            assert found is not None and found.check == "layout" and found.why.endswith(what)
    found = unlike(first, replace(second, negative=(False, True)))
    assert found is not None and (found.check, found.why[-9:]) == ("steps", "negates B")
    # A sum that begins anew has nothing to do with the one before.
    assert unlike(first, replace(second, negative=(True, False), accumulates=False)) is None


def test_a_tile_that_lies_behind_another_is_not_its_next_step() -> None:
    """A sum of products of several pairs of tiles: where A is in registers in one only, B's place tells nothing."""
    v, w = reading("B", 0x8000, mn_major=True), reading("B", 0x8000 + 2 * 1024)
    assert unlike(Product(SUM, None, v), Product(SUM, None, w), True) is not None
    assert unlike(Product(SUM, None, v), Product(SUM, None, w), False) is None
    # Of memory that threads wrote, the end of a tile is unknown, unless the rows of its swizzle go on.
    assert unlike(Product(SUM, None, v), Product(SUM, None, w)) is None
    k = reading("B", 0x8000), reading("B", 0x8020, mn_major=True)
    assert unlike(Product(SUM, None, k[0]), Product(SUM, None, k[1])) is not None
    assert unlike(Product(SUM, None, k[0]), Product(SUM, None, k[1]), False) is None
    for before, now in ((None, STEPS["along K"][0]), (STEPS["along K"][0], None)):
        assert unlike(Product(SUM, before, v), Product(SUM, now, w)) is None


@pytest.mark.parametrize("name", [name for name in STEPS if name != "in registers"])
def test_b_advances_with_a(name: str) -> None:
    first, second = (Product(SUM, a, b) for a, b in zip(STEPS[name], B, strict=True))
    for start in (0x8000, 0x8040, 0x8420):
        found = unlike(first, replace(second, b=reading("B", start)))
        assert found is not None and found.check == "steps" and "this one is not" in found.why


def test_the_end_of_a_row_of_the_pattern() -> None:
    """What follows it may be anywhere, but not where the last step was; of no tile is known where it ends along M and N."""
    a, last = STEPS["along M"], reading("B", 0x8060)
    assert unlike(Product(SUM, a[0], last), Product(SUM, a[1], reading("B", 0xC000))) is None
    found = unlike(Product(SUM, a[0], last), Product(SUM, a[1], last))
    assert found is not None and found.check == "steps"
    b = STEPS["along K"]
    assert (
        unlike(Product(SUM, b[0], a[0]), Product(SUM, b[1], replace(a[1], descriptor=replace(a[1].descriptor, start=0x5000))))
        is None
    )
    found = unlike(Product(SUM, b[0], a[0]), Product(SUM, b[1], replace(a[1], descriptor=replace(a[1].descriptor, start=0x1400))))
    assert found is not None and found.check == "steps"


def test_scale_factors_are_copied_from_anywhere() -> None:
    """And to several places at once, since nothing says in which order they lie."""
    columns = Columns(0, 4), Columns(4, 4)
    for start in (0, 512, 1000 * 16):
        sources = [replace(reading("the source", one, "none"), rows=32, k=16, element_bytes=1) for one in (0, start)]
        first, second = (Product(Accumulator("32x128b", ""), *pair) for pair in zip(columns, sources, strict=True))
        assert unlike(first, second) is None


def test_other_tiles_may_be_anything_but_of_another_type() -> None:
    other = Product(SUM, reading("A", 0x4000), reading("B", 0xC000, "64B", mn_major=True), (True, False))
    first = Product(SUM, reading("A", 0x1000), reading("B", 0x8000))
    assert unlike(first, other) is None
    for changed in (replace(other, a=reading("A", 0x4000, format="bf16")), replace(other, b=reading("B", 0xC000, format="bf16"))):
        found = unlike(first, changed)
        assert found is not None and found.check == "steps" and "one type" in found.why
        assert unlike(first, replace(changed, accumulates=False)) is None
    found = unlike(first, replace(other, a=reading("A", 0x4000, mn_major=True)))
    assert found is not None and found.check == "steps" and "another dimension contiguous" in found.why
    found = unlike(Product(SUM, other.a, other.b), Product(Accumulator("here", "f16"), reading("A", 0), reading("B", 0x8000)))
    assert found is not None and found.check == "layout" and (str(found.now), str(found.before)) == ("here as f16", "here as f32")


def test_products_of_two_kinds() -> None:
    """A sum of a block-scaled product and one of 16-bit numbers, as of a quantised matrix and its correction of low rank."""
    first, second = (
        Product(SUM, reading("A", 0x1000), B[0]),
        Product(SUM, reading("A", 0x4000), reading("B", 0xC000, format="bf16")),
    )
    assert unlike(replace(first, kind="mxf4nvf4"), replace(second, kind="f16")) is None
    assert unlike(replace(first, kind="f16"), replace(second, kind="f16")) is not None


def test_scales_go_on_alike() -> None:
    a = STEPS["along K"]
    first = Product(SUM, a[0], B[0], scales=(Scale(128, 0), Scale(256, 2)))
    second = Product(SUM, a[1], B[1], scales=(Scale(128, 1), Scale(256, 3)))
    assert unlike(first, second) is None
    found = unlike(first, replace(second, scales=(Scale(128, 1), Scale(256, 2))))
    assert found is not None and found.check == "steps" and "scale factors" in found.why
    assert unlike(first, replace(second, scales=(Scale(128, 1), Scale(260, 0)))) is None
