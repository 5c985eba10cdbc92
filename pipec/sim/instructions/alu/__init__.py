"""Instructions on the values of registers (PTX ISA 9.7.1 to 9.7.8, 9.7.9.3)."""
