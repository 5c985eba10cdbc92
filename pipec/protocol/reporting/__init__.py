"""Verdicts in terms of the source."""
