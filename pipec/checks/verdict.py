"""What a check knows that proves more than the absence of a mistake."""

from typing import Literal

from pipec.record import record


@record
class Verdict:
    """`outcome`: "proved", "refuted", "open" or "unchecked"; `sentence` is what a report prints."""

    outcome: Literal["proved", "refuted", "open", "unchecked"]
    sentence: str


UNCHECKED = Verdict("unchecked", "nothing was checked: compiled with unchecked=True")
