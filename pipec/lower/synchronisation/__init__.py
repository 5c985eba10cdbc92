"""Synchronisation of roles, CTAs, blocks and grids."""
