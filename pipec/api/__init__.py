"""The Python interface: a source or a string becomes a program, whose kernels are called and tuned."""
