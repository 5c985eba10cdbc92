"""The simulated machine: memories, warps, CTAs and clusters, asynchronous events, and what runs them against each other."""
