"""Matrix multiplications of both architectures, and their operand descriptors."""
