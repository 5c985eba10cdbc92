"""The checker of proofs: reads emitted PTX by itself, and checks a certificate of freedom from deadlock against it.

Nothing here imports anything of the compiler: what it says holds for the PTX text, whoever wrote it.
"""
