"""The contents of the text: statements, opcodes, the meaning of operations on numbers, pipec's interface lines."""
