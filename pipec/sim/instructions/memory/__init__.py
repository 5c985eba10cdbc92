"""Loads, stores, atomics and matrix loads (PTX ISA 9.7.9.8 to 9.7.9.12, 9.7.13.6)."""
