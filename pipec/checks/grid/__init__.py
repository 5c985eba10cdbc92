"""The blocks of a grid: clusters, the grids in front and behind, tile schedulers, turns."""
