"""From reductions to the syntax tree in one step: each rule of the grammar calls its method of the builder during parsing.

Usually a parser first builds a tree with positions, which a transformer then walks: more work than parsing.
"""

from collections.abc import Callable
from typing import Any

from pipec.record import record
from pipec.syntax.build import Builder
from pipec.syntax.parts import Part, Parts

Reduce = Callable[[Parts], Any]


@record
class Shape:
    """How the symbols of a rule are shaped.

    `origin` is the nonterminal, reduced from `size` symbols; `name` its method of the builder. `kept`: the symbols whose values the
    builder gets (index, whether it is a list to inline, absent optionals before it); `absent` at the end. `passes`: a single child
    represents the rule.
    """

    origin: str
    size: int
    name: str
    kept: tuple[tuple[int, bool, int], ...]
    absent: int
    passes: bool


def reduction(shape: Shape, builder: Builder) -> Reduce:
    """The function that the parser calls with the parts of a reduction."""
    kept, absent, passes = shape.kept, shape.absent, shape.passes
    if passes and shape.size == 1 and not absent:
        return only
    # Rules with an underscore are lists inside other rules, which inline their parts.
    build = None if shape.name.startswith("_") else getattr(builder, shape.name)

    indices = [index for index, _, _ in kept]

    def reduce_plain(parts: Parts) -> Part:
        children = [part.value if type(part := parts[index]) is Part else part for index in indices]
        made = Part(parts)
        if passes and len(children) == 1:
            made.value = children[0]
        else:
            made.value = children if build is None else build(made, children)
        return made

    def reduce(parts: Parts) -> Part:
        children: list[Any] = []
        for index, spliced, missing in kept:
            if missing:
                children += [None] * missing
            part = parts[index]
            if spliced:
                children += part.value
            else:
                children.append(part.value if type(part) is Part else part)
        if absent:
            children += [None] * absent
        made = Part(parts)
        if passes and len(children) == 1:
            made.value = children[0]
        else:
            made.value = children if build is None else build(made, children)
        return made

    # Most rules have neither lists to inline nor absent optionals.
    return reduce if absent or any(spliced or missing for _, spliced, missing in kept) else reduce_plain


def only(parts: Parts) -> object:
    return parts[0]
