"""Unknown values, as of what is read from memory that others write."""

from typing import Self

from pipec.verify.terms import Linear, Symbol, atom


class Unknown(Symbol):
    """An unknown value. No certificate can name it: it equals no other symbol, whatever their names."""

    __slots__ = ()

    def __new__(cls, name: str) -> Self:
        return object.__new__(cls)


def unknown(number: int) -> Linear:
    return atom(Unknown(str(number)))
