"""What a kernel declares before its roles: pipelines, buffers, grid and tile order, assumptions, tuning candidates."""
