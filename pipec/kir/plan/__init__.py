"""What is derived from a kernel before code is made of it: memory, warps, signals, waits, the interface."""
