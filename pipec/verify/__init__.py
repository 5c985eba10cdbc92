"""What is proved, held against the PTX that was emitted.

`reader/` makes a network of processes and barriers of the text, `checker/` says whether a certificate proves that none of them waits for
ever, and `network.py` is all that the two know of each other. Nothing here imports anything of the compiler: what is said holds for the PTX
text, whoever wrote it.
"""
