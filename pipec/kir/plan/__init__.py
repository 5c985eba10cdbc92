"""What is derived from a kernel before code generation: memory, warps, signals, waits, the interface."""
