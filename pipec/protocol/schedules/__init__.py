"""Rules that choose the process to step next."""
