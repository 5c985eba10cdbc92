"""Warps, CTAs and clusters: their lanes, and their waits."""
