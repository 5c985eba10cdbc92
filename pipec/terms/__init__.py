"""Integer terms in a canonical form, what the machine's arithmetic is on them, and what divides them."""
