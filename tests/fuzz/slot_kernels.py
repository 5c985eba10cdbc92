"""Random chains of three roles (`relay_kernels.py`) whose slots are chosen by the numbers of the stages that are held around the access."""

import random
import re

from fuzz.relay_kernels import draw as draw_chain

_WITH = re.compile(r"(?P<indent> *)with (?P<name>\w)\.(?P<way>produce|consume)\(\):")
_PLACE = re.compile(r"y\[[^,]*, 0\]")
_SLOTS = (
    "{}.index() * 8",
    "{}.index() * 8",
    "{}.index() * 8",
    "({}.index() + 1) % 2 * 8",
    "{}.index() * 16",
    "{}.index() // 2 * 8",
)


def draw(chance: random.Random) -> str:
    """Some kernels hold no stage around an access: those keep their slots."""
    held: list[tuple[int, str]] = []
    lines = []
    for line in draw_chain(chance).split("\n"):
        indent = len(line) - len(line.lstrip())
        held = [one for one in held if one[0] < indent]
        if found := _WITH.fullmatch(line):
            stage = f"{found['name']}_{found['way']}d"
            held.append((indent, stage))
            line = f"{line[:-1]} as {stage}:"
        elif held and _PLACE.search(line) and chance.random() < 0.9:
            line = _PLACE.sub(f"y[{chance.choice(_SLOTS).format(chance.choice(held)[1])}, 0]", line)
        lines.append(line)
    return "\n".join(lines)
