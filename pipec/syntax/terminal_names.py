"""The names of terminals in messages."""

WORDS = {
    "NAME": "a name",
    "INTEGER": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
    "LONG_STRING": "a string",
    "TRUE": "a value",
    "FALSE": "a value",
    "COLON": "`:`",
    "COMMA": "`,`",
    "DOT": "`.`",
    "EQUAL": "`=`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "AUGMENTED": "an assignment",
    "COMPARISON": "a comparison",
    "SHIFT": "an operator",
    "BIT_OR": "an operator",
    "BIT_XOR": "an operator",
    "BIT_AND": "an operator",
    "PLUS": "an operator",
    "MINUS": "an operator",
    "STAR": "an operator",
    "SLASH": "an operator",
    "TILDE": "an operator",
    "OR": "an operator",
    "AND": "an operator",
    "NOT": "an operator",
    "ROLE_CLAUSE": "`produces` or `consumes`",
    "__ANON_0": "`->`",
    "_NEWLINE": "the end of the line",
    "_INDENT": "an indented block",
    "_DEDENT": "the end of the block",
    "$END": "the end of the file",
}

# Terminals that can start or continue an expression: reported as one, or a message would list twelve operators.
_EXPRESSION_START = {
    "NAME",
    "INTEGER",
    "FLOAT",
    "STRING",
    "LONG_STRING",
    "TRUE",
    "FALSE",
    "LPAR",
    "MINUS",
    "PLUS",
    "TILDE",
    "NOT",
}
_OPERATORS = {"COMPARISON", "SHIFT", "BIT_OR", "BIT_XOR", "BIT_AND", "PLUS", "MINUS", "STAR", "SLASH", "OR", "AND", "IF", "DOT"}
_STATEMENT_START = {"FOR", "WHILE", "WITH", "RETURN", "PASS", "ROLE", "IF", "COMPTIME", "TUNE"}
_DEFINITION_START = {"KERNEL", "FN"}


def word(terminal: str) -> str:
    """The description of one terminal; keywords are quoted."""
    return WORDS.get(terminal, f"`{terminal.lower()}`")


def expected(accepts: set[str]) -> str:
    """The description of what is valid at a position, given the terminals accepted there."""
    if accepts >= _DEFINITION_START:
        return "`kernel`, `fn` or `comptime`"
    if accepts >= _STATEMENT_START:
        return "a statement"
    rest = set(accepts)
    groups = []
    if rest >= _EXPRESSION_START:
        groups.append("an expression")
        rest -= _EXPRESSION_START
    elif rest >= (_OPERATORS - {"IF"}):
        rest -= _OPERATORS | {"LPAR", "LSQB", "IF"}
    elif rest >= (_EXPRESSION_START - {"NOT"}):
        groups.append("an operand")
        rest -= _EXPRESSION_START
    words = groups + sorted({word(terminal) for terminal in rest})
    if not words:
        return "an operator"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
