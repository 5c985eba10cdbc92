"""The launches of a stream that may overlap."""

from pipec.sim import Touched

# A grid begins when all CTAs of the one before have let it or have ended, and those end when they have waited for the one before them:
# only the last grids can still run.
_OVERLAPPING = 2


class Stream:
    """`unfinished`: what the grids touch that may still run when the next one begins."""

    def __init__(self) -> None:
        self.unfinished: list[Touched] = []

    def begins(self, programmatic: bool) -> bool | list[Touched]:
        """The argument `programmatic` of the next launch; an ordinary one begins when all grids have ended."""
        if not programmatic:
            self.unfinished = []
            return False
        return list(self.unfinished)

    def ends(self, touched: Touched | None) -> None:
        if touched is not None:
            self.unfinished = [*self.unfinished, touched][-_OVERLAPPING:]
