"""Warps, CTAs and clusters: their lanes, and what they wait for."""
