"""How a search ends that finds nothing."""


class Undecided(Exception):
    """No certificate was found; says why. `hopeless`: another attempt will end alike."""

    def __init__(self, why: str, *, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hopeless = hopeless
