"""Choosing the compile-time parameters of a kernel: by measurement, or by a model."""
