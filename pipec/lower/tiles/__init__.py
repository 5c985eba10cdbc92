"""Tiles between global memory, shared memory, tensor memory and registers, and computations on them."""
