"""The command line: its options, output, and commands."""
