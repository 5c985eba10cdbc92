"""Predicts the time of a kernel without a GPU: roles and rings as timed events, and what bounds them."""
