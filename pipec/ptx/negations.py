"""Integer negations written so that ptxas compares them rightly.

ptxas 12.9 to 13.4 reads the operand of a `neg` with its sign in the instruction that uses the result. Where that is a comparison, it loses
the sign: a loop that counts down to `-m` and is unrolled is left after too few or too many turns, and `-|m|` compares wrongly with a
negative constant. Seen on an H200 (158 of 3150 forms of loops; `benchmarks/gpu/random_kernels.py` found the first) and in the code for
sm_100a. The complement plus one is the same number, and ptxas leaves it alone.
"""

import re

_NEGATION = re.compile(r"^(\s*)neg\.s(16|32|64)(\s+)(%\w+), (%\w+);$", re.MULTILINE)


def as_complements(ptx: str) -> str:
    return _NEGATION.sub(r"\1not.b\2\3\4, \5;\n\1add.s\2\3\4, \4, 1;", ptx) if "neg.s" in ptx else ptx
