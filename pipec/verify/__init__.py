"""Checks certificates against the emitted PTX.

`reader/` extracts a network of processes and barriers from the text, `checker/` decides whether a certificate proves that none of them
waits for ever, and `network.py` is the only interface between the two. Nothing here imports the compiler: the result holds for the PTX
text, whoever wrote it.
"""
