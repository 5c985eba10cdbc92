"""Accesses to global memory that the kernel writes: where they go, and what orders them."""
