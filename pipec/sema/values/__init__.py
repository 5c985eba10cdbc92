"""The meaning of expressions: compile-time folding, run-time types, tiles and slices."""
