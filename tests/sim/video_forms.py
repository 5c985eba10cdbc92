"""Video instructions drawn at random, and what they compute, from the pseudocode of PTX ISA 9.7.19 with words as strings of bits."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
SELECTORS = ["", "", "b0", "b1", "b2", "b3", "h0", "h1"]
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: not a - b,
    "ne": lambda a, b: bool(a - b),
    "lt": lambda a, b: a - b < 0,
    "le": lambda a, b: b - a >= 0,
    "gt": lambda a, b: b - a < 0,
    "ge": lambda a, b: a - b >= 0,
}
ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vabsdiff": lambda a, b: a - b if a > b else b - a,
    "vmin": lambda a, b: min(b, a),
    "vmax": lambda a, b: max(a, b),
}


@dataclass(frozen=True)
class Form:
    """The text of an instruction on %r1, %r2 and %r3, which it writes; what it makes of their words."""

    text: str
    meaning: Callable[[int, int, int], int]


def number(bits: str, signed: bool) -> int:
    """Of a string of bits, the first of which is the sign."""
    return int(bits, 2) - (int(bits[0]) << len(bits) if signed else 0)


def bits_of(word: int) -> str:
    return format(word & 0xFFFFFFFF, "032b")


def selected(word: int, selector: str, kind: str) -> int:
    text = bits_of(word)
    if selector:
        size, at = {"b": 8, "h": 16}[selector[0]], int(selector[1])
        text = text[len(text) - size * (at + 1) : len(text) - size * at]
    return number(text, kind == "s32")


def clamped(value: int, kind: str, size: int) -> int:
    lowest, highest = (-(2 ** (size - 1)), 2 ** (size - 1) - 1) if kind == "s32" else (0, 2**size - 1)
    return sorted((lowest, value, highest))[1]


def second(name: str, value: int, c: int) -> int:
    return {"add": value + c, "min": min(value, c), "max": max(value, c)}[name]


def scalar(chance: random.Random, name: str) -> Form:
    kind, first, other = (chance.choice(("u32", "s32")) for _ in range(3))
    if name in ("vshl", "vshr"):
        other = "u32"
    compared, mode = chance.choice([*COMPARISONS]), chance.choice(("clamp", "wrap"))
    saturate = chance.random() < 0.5 and name != "vset"
    asel, bsel = chance.choice(SELECTORS), chance.choice(SELECTORS)
    how = chance.choice(("", "add", "min", "max", "merge", "merge"))
    dsel = chance.choice(SELECTORS[2:]) if how == "merge" else ""
    if name == "vset":
        kind, opcode = "u32", f"vset.{first}.{other}.{compared}"
    else:
        opcode = f"{name}.{kind}.{first}.{other}" + ".sat" * saturate + (f".{mode}" if name in ("vshl", "vshr") else "")
    opcode += f".{how}" if how not in ("", "merge") else ""
    register = [f"%r{place}" + (f".{one}" if one else "") for place, one in ((3, dsel), (1, asel), (2, bsel))]
    text = f"{opcode} {', '.join(register)}{', %r3' if how else ''};"

    def meaning(a: int, b: int, c: int) -> int:
        ta, tb = selected(a, asel, first), selected(b, bsel, other)
        if name == "vset":
            value = 1 if COMPARISONS[compared](ta, tb) else 0
        elif name in ("vshl", "vshr"):
            tb = tb % 32 if mode == "wrap" else min(tb, 32)
            value = ta * 2**tb if name == "vshl" else ta // 2**tb
        else:
            value = ARITHMETIC[name](ta, tb)
        if saturate:
            value = clamped(value, kind, {"": 32, "b": 8, "h": 16}[dsel[:1]])
        if how == "merge":
            size, at = {"b": 8, "h": 16}[dsel[0]], int(dsel[1])
            old, end = bits_of(c), 32 - size * at
            return int(old[: end - size] + bits_of(value)[32 - size :] + old[end:], 2)
        return second(how, value, selected(c, "", kind)) if how else value

    return Form(text, meaning)


def multiply(chance: random.Random, _: str) -> Form:
    first, other = (chance.choice(("u32", "s32")) for _ in range(2))
    asel, bsel = chance.choice(SELECTORS), chance.choice(SELECTORS)
    how = chance.choice(("", "po", "a", "b", "c"))
    final = "u32" if (first, other) == ("u32", "u32") and how in ("", "po") else "s32"
    saturate, scale = chance.random() < 0.5, chance.choice((0, 7, 15))
    opcode = f"vmad.{final}.{first}.{other}" + ".po" * (how == "po") + ".sat" * saturate + (f".shr{scale}" if scale else "")
    register = [("-" if how == name else "") + f"%r{place}" for name, place in (("a", 1), ("b", 2), ("c", 3))]
    register = [text + (f".{one}" if one else "") for text, one in zip(register, (asel, bsel, ""), strict=True)]

    def meaning(a: int, b: int, c: int) -> int:
        product = selected(a, asel, first) * selected(b, bsel, other)
        if how in ("a", "b"):
            product = -product
        added = selected(c ^ 0xFFFFFFFF, "", final) + 1 if how == "c" else selected(c, "", final)
        value = (product + added + (how == "po")) // 2**scale
        return clamped(value, final, 32) if saturate else value

    return Form(f"{opcode} %r3, {', '.join(register)};", meaning)


def parts(chance: random.Random, name: str) -> Form:
    count = chance.choice((2, 4))
    size, letter = 32 // count, "h" if count == 2 else "b"
    kind, first, other = (chance.choice(("u32", "s32")) for _ in range(3))
    compared, summed = chance.choice([*COMPARISONS]), chance.random() < 0.4
    saturate = chance.random() < 0.5 and name != "vset" and not summed
    masked = [at for at in range(count) if chance.random() < 0.6] or [0]
    chosen = [[chance.randrange(2 * count) for _ in range(count)] for _ in range(2)]
    plain = [[*range(count)], [*range(count, 2 * count)]]
    named = [chance.random() < 0.7 for _ in range(3)]
    chosen = [one if use else default for one, use, default in zip(chosen, named, plain, strict=False)]
    masked = masked if named[2] else [*range(count)]
    suffix = [
        "." + letter + "".join(map(str, reversed(one))) if use else "" for one, use in zip((*chosen, masked), named, strict=True)
    ]
    if name == "vset":
        kind, opcode = "u32", f"vset{count}.{first}.{other}.{compared}"
    else:
        opcode = f"{name}{count}.{kind}.{first}.{other}" + ".sat" * saturate
    text = f"{opcode}{'.add' * summed} %r3{suffix[2]}, %r1{suffix[0]}, %r2{suffix[1]}, %r3;"

    def meaning(a: int, b: int, c: int) -> int:
        both, old = bits_of(b) + bits_of(a), bits_of(c)

        def piece(text: str, at: int) -> str:
            return text[len(text) - size * (at + 1) : len(text) - size * at]

        found, total = [piece(old, at) for at in range(count)], number(old, False)
        for at in masked:
            ta, tb = number(piece(both, chosen[0][at]), first == "s32"), number(piece(both, chosen[1][at]), other == "s32")
            if name == "vset":
                value = 1 if COMPARISONS[compared](ta, tb) else 0
            elif name == "vavrg":
                value = (ta + tb + 1) // 2 if ta + tb >= 0 else (ta + tb) // 2
            else:
                value = ARITHMETIC[name](ta, tb)
            if saturate:
                value = clamped(value, kind, size)
            found[at] = bits_of(value)[32 - size :]
            total += number(found[at], kind == "s32")
        return total if summed else int("".join(reversed(found)), 2)

    return Form(text, meaning)


FAMILIES: dict[str, tuple[Callable[[random.Random, str], Form], str]] = {
    **{name: (scalar, name) for name in (*ARITHMETIC, "vset", "vshl", "vshr")},
    "vmad": (multiply, "vmad"),
    **{f"{name}, parts": (parts, name) for name in (*ARITHMETIC, "vavrg", "vset")},
}


def forms(family: str, count: int) -> list[Form]:
    chance, (draw, name) = random.Random(family), FAMILIES[family]
    return [draw(chance, name) for _ in range(count)]


def module(found: list[Form]) -> str:
    """Lane i of form n writes word 32 n + i of the second argument; %r1, %r2, %r3 come from the three rows of the first one."""
    lines = "\n".join(
        f"mov.b32 %r3, %r4; {one.text} st.global.b32 [%out+{128 * number}], %r3;" for number, one in enumerate(found)
    )
    return f"""{HEAD}.visible .entry k(.param .u64 p0, .param .u64 p1) {{ .reg .b32 %t, %r<8>; .reg .b64 %in, %out, %x;
    ld.param.u64 %in, [p0]; ld.param.u64 %out, [p1]; mov.u32 %t, %tid.x;
    mul.wide.u32 %x, %t, 4; add.s64 %in, %in, %x; add.s64 %out, %out, %x;
    ld.global.b32 %r1, [%in]; ld.global.b32 %r2, [%in+128]; ld.global.b32 %r4, [%in+256];
{lines}
    ret; }}"""


def words() -> np.ndarray:
    """Random words, bounds of bytes, halfwords and words, and distances of shifts."""
    drawn = np.random.default_rng(11).integers(0, 1 << 32, (3, 32), dtype=np.uint64).astype(np.uint32)
    edges = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7F807F80, 0x80FF7FFF, 0x00200021, 31, 32, 33, 0x1F201F00]
    drawn[0, :12], drawn[1, :12], drawn[2, 4:16] = edges, edges[::-1], edges
    drawn[1, 16:24] = [0, 5, 16, 31, 32, 33, 40, 63]
    return drawn
