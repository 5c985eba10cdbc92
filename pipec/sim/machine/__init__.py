"""The simulated machine: memories, warps, CTAs and clusters, asynchronous events, and the scheduler."""
