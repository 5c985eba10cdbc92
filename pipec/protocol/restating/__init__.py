"""Processes in other words, in which those that do the same are more alike (see pipec/verify/checker/restated.py)."""
