"""The blocks of a grid: clusters, preceding and dependent grids, tile schedulers, semaphores."""
