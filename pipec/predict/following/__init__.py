"""Event-driven simulation of one block: its roles, what they hand to each other, and the shared engines."""
