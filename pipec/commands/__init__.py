"""The command line: its options, what it prints, and what each command does."""
