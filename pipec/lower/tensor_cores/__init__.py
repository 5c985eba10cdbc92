"""Matrix multiplications of both architectures, and the descriptors they read their operands through."""
