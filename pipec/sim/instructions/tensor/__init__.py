"""Tensor cores: mma.sync, wgmma, tcgen05 (PTX ISA 9.7.14 to 9.7.16)."""
