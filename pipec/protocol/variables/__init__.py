"""The values of a network as numbered variables, and what each kind of value means."""
