"""Instruction rows that select elements by the bits of a word (PTX ISA 9.7.7.4), generated per pattern of operands.

One template for all elements: each costs LLVM and whoever reads the PTX a third of what a template of its own does.
"""

from functools import cache

from pipec.isa.instruction import F32, I32, Instruction

_NEXT = "\\0A\\09"  # a new line in a template
_FORMS = {F32: ("f32", "f"), I32: ("b32", "r")}  # the PTX type and the constraint of a register
CHOSEN = frozenset(_FORMS)


@cache
def choose_by_bits(type_: str, others: tuple[int, ...], if_set: bool) -> Instruction:
    """Keeps element `i`, of an LLVM type in CHOSEN, if bit `i` of the word is set (or clear, unless `if_set`); else it becomes one of the
    other values.

    Operands: the word, the elements, the other values. `others`: by element, the index of its other value.
    """
    ptx, register = _FORMS[type_]
    count, different = len(others), max(others) + 1
    lines = ["{", ".reg .b32 bit;", ".reg .pred chosen;"]
    for place, other in enumerate(others):
        kept, left = f"${place}", f"${2 * count + 1 + other}"
        # ptxas tests several bits at once only where each is selected by beside its test.
        lines += [
            f"and.b32 bit, ${count}, {1 << place};",
            "setp.ne.b32 chosen, bit, 0;",
            f"selp.{ptx} ${place}, {f'{kept}, {left}' if if_set else f'{left}, {kept}'}, chosen;",
        ]
    # In place, and in no register that a later line reads.
    constraints = [*[f"=&{register}"] * count, "r", *map(str, range(count)), *[register] * different]
    result = type_ if count == 1 else f"{{ {', '.join([type_] * count)} }}"
    operands = (I32, *[type_] * (count + different))
    return Instruction(
        "bits.choose", _NEXT.join([*lines, "}"]), result, operands, f"selp.{ptx}", "thread", "9.7.7.4",
        constraints=",".join(constraints), pure=True,
    )  # fmt: skip
