"""What a check knows that proves more than the absence of a mistake."""

from pipec.record import record


@record
class Verdict:
    """`outcome`: "proved", "refuted" or "open"; `sentence` is what a report prints."""

    outcome: str
    sentence: str
