"""Formatting for messages: values that the user passed, abbreviated, and counts of things."""

_MOST = 60


def shown(value: object) -> str:
    """Python's text for a value, cut off where it is long; its type where it has no text (Python prints no integer of 5,000 digits)."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the text of a caller's own class
        return f"a value of type {type(value).__name__}"
    text = text.encode("ascii", "backslashreplace").decode() if not text.isprintable() else text
    return text if len(text) <= _MOST else f"{text[: _MOST - 3]}..."


def counted(number: int, word: str) -> str:
    """`1 stage`, `2 stages`."""
    return f"{number} {word}{'' if number == 1 else 's'}"
