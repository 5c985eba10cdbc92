"""Messages about what lies beyond one CTA: clusters, the grid, its order of tiles, global memory."""
