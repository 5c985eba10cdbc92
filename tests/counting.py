"""Loops that count from any start to any end by any step, and what their counters are, one after the other."""

from itertools import product

import numpy as np

# As the language and as Python write them; `m` and `n` are given to the launch.
ENDS = ("0", "5", "-7", "m", "-m", "n", "n - 1", "1 - m", "-1 - m", "n - m", "-m // 2", "min(m, -m)", "max(-m, -n)")
STEPS = (1, -1, 2, -3)
SIZES = ((-3, 0), (0, 3), (1, 11), (2, 0), (3, 3), (5, 11), (9, 3))
FORMS = tuple(product(ENDS, ENDS, STEPS))
_IN_A_KERNEL = 26  # loops
# Whatever the numbers, nothing happens here. LLVM finds that out so late that the loop has no `.pragma "nounroll"`, and ptxas unrolls it.
_NOTHING = """\
            if (cast[u32](small) > 942972257 and cast[i64](seen) < 5346572944095408879) and not (cast[i64](seen) < 9223372036854775807):
                other = cast[i16](j) << 4
            elif (cast[u32](small) > 16777216 and small >= 32) and cast[i16](seen) < 6219:
                pass
"""


def kernels() -> list[tuple[str, tuple[tuple[str, str, int], ...]]]:
    """Each with its loops."""
    parts = [FORMS[first : first + _IN_A_KERNEL] for first in range(0, len(FORMS), _IN_A_KERNEL)]
    return [(_source(part), part) for part in parts]


def _source(forms: tuple[tuple[str, str, int], ...]) -> str:
    lines = [f"kernel count(y: tensor[i32, {len(forms)}, 8], m: i32, n: i32):", "    grid(1)", "    role all(warps=1):"]
    lines += ["        small = cast[u8](n) << 5"]
    for row, (start, end, step) in enumerate(forms):
        lines += [
            "        seen = 7",
            f"        for j in range({start}, {end}, {step}):",
            _NOTHING.rstrip(),
            "            seen = seen * 31 + j",
            f"        store.direct(y[{row}, 0], fill(seen, i32, 1, 8))",
        ]
    return "\n".join(lines) + "\n"


def expected(forms: tuple[tuple[str, str, int], ...], m: int, n: int) -> np.ndarray:
    rows = []
    for start, end, step in forms:
        seen = 7
        for j in range(eval(start), eval(end), step):  # the texts above
            seen = (seen * 31 + j) & 0xFFFFFFFF
        rows.append([seen] * 8)
    return np.array(rows, np.uint32).view(np.int32)
