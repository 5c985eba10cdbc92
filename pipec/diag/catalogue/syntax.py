"""E01xx: text that is not pipec."""

from pipec.diag.message import Message, primary
from pipec.source import Span


class Unexpected(Message):
    """The text at the caret cannot stand there; the message lists what could.

    The syntax is Python's for expressions, indentation, `for`, `while`, `if` and `with`; a file holds `kernel`, `fn` and
    `comptime` definitions. After a syntax error the rest of the file is not looked at, so fix this one and compile again.
    """

    code = "E0101"
    title = "{found} cannot stand here"
    labels = (primary("at", "expected {expected}"),)
    found: str
    expected: str
    at: Span


class UnknownCharacter(Message):
    """A character that no word of the language contains, for example `$`, `'`, `ö` or a control character.

    Strings take double quotes, those of several lines three double or three single ones. Names take ASCII letters, digits and
    underscores, as in PTX, where they reappear. Comments and strings may hold any text.
    """

    code = "E0102"
    title = "the character `{character}` means nothing in pipec"
    labels = (primary("at", "{advice}"),)
    character: str
    advice: str
    at: Span


class UnclosedString(Message):
    """A string that starts here is not closed on its line. A text of several lines takes three quotes on each side."""

    code = "E0103"
    title = "this string is not closed"
    labels = (primary("at", "starts here, and {end} ends without a closing quote"),)
    end: str
    at: Span


class MissingColon(Message):
    """The header of a kernel, role, loop, `if` or `with` ends with a colon."""

    code = "E0104"
    title = "a colon is missing"
    labels = (primary("at", "put `:` here"),)
    at: Span


class MissingBlock(Message):
    """A header that ends with a colon is followed by an indented block; a block with nothing to do holds `pass`."""

    code = "E0105"
    title = "an indented block is missing"
    labels = (primary("at", "a block must follow, indented one level deeper"),)
    help = "write `pass` when there is nothing to do"
    at: Span


class UnexpectedIndent(Message):
    """A line is indented deeper than the one before, which opened no block."""

    code = "E0106"
    title = "this line is indented for no reason"
    labels = (primary("at", "no block was opened by the line before"),)
    at: Span


class BadDedent(Message):
    """A line goes back to an indentation that no open block has. A tab counts up to the next multiple of 8."""

    code = "E0107"
    title = "the indentation of this line matches no open block"
    labels = (primary("at", "align it with the block it belongs to"),)
    at: Span


class Unbalanced(Message):
    """A closing bracket without the opening one. Inside brackets line ends do not count, so a stray bracket can hide far above."""

    code = "E0108"
    title = "`{bracket}` closes nothing"
    labels = (primary("at", "no bracket is open here"),)
    bracket: str
    at: Span


class TooDeep(Message):
    """Nesting has limits, far above what any kernel needs, so that every input ends in an answer."""

    code = "E0109"
    title = "this {what} is too deep or too long: at most {limit}"
    labels = (primary("at", "the limit is reached here"),)
    what: str
    limit: str
    at: Span


class NotText(Message):
    """A source file is UTF-8 text. Object files, PTX or images given by mistake end here."""

    code = "E0110"
    title = "`{name}` is not UTF-8 text: byte {offset} is 0x{byte:02X}"
    note = "nothing was compiled"
    name: str
    offset: int
    byte: int


class Unreadable(Message):
    """The file could not be opened: it does not exist, is a folder, or its permissions forbid it."""

    code = "E0111"
    title = "cannot read `{name}`: {reason}"
    name: str
    reason: str


class Empty(Message):
    """A source without a kernel compiles to nothing, which is never what was meant."""

    code = "E0112"
    title = "`{name}` defines no kernel"
    labels = (primary("at", "the file ends without a `kernel`"),)
    name: str
    at: Span
