"""What makes roles, CTAs, blocks and grids wait for one another."""
