"""What a check establishes beyond the absence of errors."""

from typing import Literal

from pipec.record import record


@record
class Verdict:
    """`outcome`: "proved", "refuted", "open" or "unchecked"; `sentence` is what a report prints."""

    outcome: Literal["proved", "refuted", "open", "unchecked"]
    sentence: str


@record
class Findings:
    """Sentences about global memory: what was checked on the source, for every launch, and what that takes for granted."""

    checked: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


UNCHECKED = Verdict("unchecked", "nothing was checked: compiled with unchecked=True")
