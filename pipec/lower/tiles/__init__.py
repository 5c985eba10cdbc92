"""Tiles between global memory, shared memory, tensor memory and registers, and what is computed with them."""
