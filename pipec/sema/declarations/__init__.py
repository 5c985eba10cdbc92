"""What a kernel states before its roles: pipelines, buffers, its grid and its order of tiles, conditions, choices to tune."""
