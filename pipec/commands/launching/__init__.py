"""Commands that run a kernel: their arguments from the command line or a file, and their results."""
