"""How the numbers of a text are read. There are several ways, each of which gives a sound model of the text."""

from pipec.record import record

# Parts of a form beyond which it is folded up. Whatever the limit, some condition is told of a form that is just smaller and a bound of one
# that is just larger, and then neither says anything of the other. What is not decided with one limit is therefore read with the next.
# With the last one, what was folded counts as one part of larger forms: bounds that are read from memory stay apart.
LIMITS = (72, 24, 23)
ROOMY = 120  # with room for what is made of a share of each block, as how many tiles its elements are
WHOLE = 240  # with room for all that is made of a number that is loaded


@record
class Interpretation:
    """`limit`: one of LIMITS, ROOMY or WHOLE. `as_read`: what is made of a counter and read without a sign, or in part, is the number
    that the machine reads; else it is required that this is the same number, which tells more of the counter. `near`: the place of a
    block in the grid is as small as sizes usually are, and so are products of sizes that something is taken from, or else it is for the
    launch. `fitting`: what is made of loaded numbers and read with a sign is required to fit, under the assumption that it does
    (processes/fitting.py), else it is the number that the machine reads. `wraps`: registers of which what is made is the number that
    the machine reads, however it is read (processes/unbounded.py). `stated`: how many of the conditions of launches tell the least
    values of sizes and scalars; all, where it is not given. `branches`: with those around others that decide nothing but how much code
    is executed."""

    limit: int = LIMITS[0]
    as_read: bool = False
    near: bool = False
    fitting: bool = False
    wraps: frozenset[str] = frozenset()
    stated: int | None = None
    branches: bool = False


FIRST = Interpretation()
