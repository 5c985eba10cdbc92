"""Tiles: their shapes, the constraints of the MMA unit and the copies, and their contents when read."""
