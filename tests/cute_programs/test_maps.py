"""What of a tensor map in the hardware's format is understood, and the command where CuTe DSL is not installed."""

import struct
from importlib import metadata
from pathlib import Path

import pytest

import pipec.cute
from pipec.commands.cli import main
from pipec.cute.maps import decoded

# f16, 96 x 64, boxes of 32 x 64 with the 128-byte swizzle, as CuTe DSL 4.8 makes it.
WORDS = [0x16230EC0, 0x557B, 0x46312, 8, 0, 0, 0, 0, 63, 95, 0, 0, 0, 0x3F000000, 0x1F, 0, *range(1, 17)]


def test_known_properties() -> None:
    found = decoded(struct.pack("<32I", *WORDS))
    assert found is not None and found.address == 0x557B16230EC0
    assert (found.dtype, found.dims, found.strides, found.box, found.swizzle) == ("f16", (64, 96), (128,), (64, 32), "128B")


def test_large_tensors() -> None:
    """From 128 KiB on, the map has one more bit."""
    words = list(WORDS)
    words[2] |= 1 << 21
    words[9] = 1023
    found = decoded(struct.pack("<32I", *words))
    assert found is not None and found.dims == (64, 1024)


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("u8", 0x40012),
        ("u16", 0x40092),
        ("u32", 0x40112),
        ("u64", 0x240212),
        ("f16", 0x40312),
        ("f32", 0x40392),
        ("tf32", 0x50392),
        ("f64", 0x240492),
        ("bf16", 0x40512),
        ("b4x16", 0x40592),
        ("b4x16_p64", 0x46612),
        ("b6x16_p32", 0x46692),
    ],
)
def test_types(dtype: str, kind: int) -> None:
    """As CuTe DSL 4.8 makes them of tensors of two dimensions."""
    words = list(WORDS)
    words[2] = kind
    found = decoded(struct.pack("<32I", *words))
    assert found is not None and found.dtype == dtype


@pytest.mark.parametrize(
    ("word", "bits"), [(2, 1 << 16), (2, 1 << 11), (2, 1 << 15), (2, 1 << 22), (2, 7 << 4), (2, 2), (13, 1), (15, 1)]
)
def test_other_properties_are_not_guessed(word: int, bits: int) -> None:
    """tf32 of f16; interleaving, fill, an unknown bit; more dimensions than there are; no map at all; element strides."""
    words = list(WORDS)
    words[word] ^= bits if bits != 7 << 4 else 6 << 4
    assert decoded(struct.pack("<32I", *words)) is None


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(pipec.cute, "version", version)
    file = tmp_path / "program.py"
    file.write_text("", encoding="utf-8")
    assert main(["cute", str(file)]) == 1
    told = capsys.readouterr().err
    assert "error[E1026]: no CuTe DSL to compile" in told and "pip install 'pipec[cute]'" in told


def test_another_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipec.cute, "version", lambda name: "4.7.2")
    with pytest.raises(pipec.cute.NoCute, match="and 4.7.2 is here"):
        pipec.cute.install()
