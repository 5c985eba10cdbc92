"""Numbers that each thread counts for itself: proofs of several threads must not use up each other's limits."""

import threading


class PerThread(threading.local):
    """`value` is `first` on a thread that has not changed it."""

    def __init__(self, first: float) -> None:
        self.value = first
