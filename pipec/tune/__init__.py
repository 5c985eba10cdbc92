"""Choosing the compile-time parameters of a kernel: measured, or by a model."""
