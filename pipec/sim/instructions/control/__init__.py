"""Branches, calls, barriers, and what the lanes of a warp do together (PTX ISA 9.7.12, 9.7.13)."""
