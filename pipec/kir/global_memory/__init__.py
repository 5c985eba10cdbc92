"""Accesses to global memory that the kernel writes: their addresses, and what orders them."""
