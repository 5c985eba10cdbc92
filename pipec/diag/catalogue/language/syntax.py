"""E01xx: text that is not pipec."""

from pipec.diag.message import Message, insert_before, primary, replace, secondary
from pipec.source import Span


class Unexpected(Message):
    """The text at the caret is not allowed there; the message lists what is.

    The syntax is Python's for expressions, indentation, `for`, `while`, `if` and `with`; a file holds `kernel`, `fn` and `comptime`
    definitions. After a syntax error, the statement at fault is skipped and the rest of the file is parsed for more errors; the
    meaning of the program is checked once there are none.
    """

    code = "E0101"
    title = "{found} is not allowed here"
    labels = (primary("at", "expected {expected}"),)
    found: str
    expected: str
    at: Span


class UnknownCharacter(Message):
    """A character that does not occur in the language, for example `$`, `ö` or a control character.

    Names take ASCII letters, digits and underscores, as in PTX, where they reappear. Comments and strings may hold any text.
    """

    code = "E0102"
    title = "the character `{character}` means nothing in pipec"
    labels = (primary("at", "{advice}"),)
    character: str
    advice: str
    at: Span


class UnclosedString(Message):
    """A string that starts here is not closed on its line. A string of several lines takes three quotes on each side."""

    code = "E0103"
    title = "this string is not closed"
    labels = (primary("at", "starts here, and {end} ends without a closing quote"),)
    end: str
    at: Span


class MissingColon(Message):
    """The header of a kernel, role, loop, `if` or `with` ends with a colon."""

    code = "E0104"
    title = "a colon is missing"
    labels = (primary("at", "the header ends here"),)
    help = "put `:` here"
    edits = (insert_before("at", ":"),)
    at: Span


class MissingBlock(Message):
    """A header that ends with a colon is followed by an indented block; a block with nothing to do contains `pass`."""

    code = "E0105"
    title = "an indented block is missing"
    labels = (primary("at", "a block must follow, indented one level deeper"),)
    help = "write `pass` if there is nothing to do"
    edits = (insert_before("at", " pass"),)
    at: Span


class UnexpectedIndent(Message):
    """A line is indented deeper than the one before, which opened no block."""

    code = "E0106"
    title = "unexpected indentation"
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
    help = "remove it"
    edits = (replace("at", ""),)
    bracket: str
    at: Span


class TooDeep(Message):
    """Nesting is limited, far above what any kernel needs, so that every input gets an answer."""

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
    """A file or text without a kernel compiles to nothing, which is never intended.

    A file cannot consist of helpers and constants alone: a `fn` is inlined into the kernels of its own file. If a program generated the
    text, check its output.
    """

    code = "E0112"
    title = "`{name}` defines no kernel"
    labels = (primary("at", "the file ends without a `kernel`"),)
    name: str
    at: Span


class Unclosed(Message):
    """An opening bracket without its closing one. Inside brackets line ends do not count, so the parser reads the following
    statements as part of this one, and fails only there."""

    code = "E0113"
    title = "`{bracket}` is never closed"
    labels = (primary("at", "opened here"), secondary("behind", "this does not belong inside it"))
    help = "put `{closing}` where the expression ends"
    bracket: str
    closing: str
    at: Span
    behind: Span | None


class OtherForm(Message):
    """A construct or a name from Python, C++, CUDA, Triton or another kernel language that pipec does not have, although there is an
    equivalent. The note says why pipec does it differently, the help says how.

    docs/language.md lists them ("Coming from elsewhere").
    """

    code = "E0114"
    title = "pipec has no {what}"
    labels = (primary("at", "not part of the language"),)
    note = "{why}"
    help = "{instead}"
    edits = (replace("at", "{edit}"),)
    what: str
    why: str
    instead: str
    edit: str | None
    at: Span


class LooksLike(Message):
    """A character that looks like one of ASCII, or stands for a digit in another script: typographic quotes, dashes, a no-break space,
    Arabic digits. Editors and web pages insert them. The language is written in ASCII outside comments and strings, so that two names or
    numbers that look the same are the same."""

    code = "E0115"
    title = "`{found}` is not `{right}`"
    labels = (primary("at", "{name}"),)
    note = "outside comments and strings, a source is ASCII, so that whatever looks the same is the same"
    help = "write `{right}`"
    edits = (replace("at", "{right}"),)
    found: str
    right: str
    name: str
    at: Span


class SingleQuotes(Message):
    """Strings are enclosed in double quotes; a docstring of several lines in three double or three single quotes."""

    code = "E0116"
    title = "a string is enclosed in double quotes"
    labels = (primary("at", "single quotes"),)
    help = 'write `"{text}"`'
    edits = (replace("at", '"{text}"'),)
    text: str | None
    at: Span
