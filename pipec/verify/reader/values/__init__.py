"""Register values of a class of threads, and the effect of instructions on them and on the barriers."""
