"""Decides whether a certificate proves that no role waits for ever. Depends on the network only, not on the PTX from which it was read."""
