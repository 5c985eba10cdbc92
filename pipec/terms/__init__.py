"""Integer terms in a canonical form, machine arithmetic on them, and their divisibility."""
