"""What is said of a reference that cannot be used."""

import ast


class ReferenceProblem(Exception):
    """The `numpy:`, `given:` or `shapes:` line cannot be used; the text says why.

    `line`: the line without its word, where it is one line's fault; `part`: the first column and the end of what is wrong in it.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.line: str | None = None
        self.part: tuple[int, int] | None = None
        self._node: ast.expr | None = None

    def at(self, node: ast.expr) -> "ReferenceProblem":
        """In this part of a line, unless a smaller one is known."""
        self._node = self._node or node
        return self

    def within(self, line: str) -> "ReferenceProblem":
        """In this line, unless it is known to be an earlier one."""
        if self.line is None:
            self.line = line
            if self._node is not None and self._node.end_col_offset is not None:
                text = line.encode()  # Python counts bytes
                ends = self._node.col_offset, self._node.end_col_offset
                self.part = len(text[: ends[0]].decode()), len(text[: ends[1]].decode())
        return self
