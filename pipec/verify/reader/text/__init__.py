"""What stands in the text: statements, opcodes, what an operation does to numbers, what pipec writes beside a kernel."""
