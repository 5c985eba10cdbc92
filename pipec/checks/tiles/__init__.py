"""Tiles: their shapes, what the MMA unit and the copies take, and what is in them when they are read."""
