"""Tensor copies: maps, the boxes and pixels that they move, reductions."""
