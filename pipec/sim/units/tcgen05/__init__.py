"""Tensor memory and the fifth-generation tensor core (PTX ISA 9.7.16)."""
