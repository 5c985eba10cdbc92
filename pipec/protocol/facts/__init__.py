"""Candidate facts that no register states: products, quotients, remainders, and how far counters come."""
