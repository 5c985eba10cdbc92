"""The host of a launch in the simulator, for programs whose kernels another compiler compiles: their tensors, torch's devices, findings."""
