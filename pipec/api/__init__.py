"""The Python interface: compiles a source file or string to a program, whose kernels can be called and tuned."""
