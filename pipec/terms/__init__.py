"""Integer terms in a normal form, what the machine's arithmetic is on them, and what divides them."""
