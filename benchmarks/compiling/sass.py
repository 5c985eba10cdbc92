"""Machine instructions in the innermost loops of every example: what one K block, or the scores of one block of keys, costs to issue.

    python benchmarks/compiling/sass.py [--only gemm,attention] [--name sass] [--cute PYTHON]

Each example is compiled with its default parameters, assembled, and disassembled by nvdisasm (on PATH, or in the packages of CUDA or of
Triton). A loop is counted when it works (a matrix product, a copy by TMA, an exponential, a store) and no loop inside it does. Its figure
is all that its body holds, on whichever way, without loops inside it: those wait, and turn only where something is late. `issued` is the
shortest way around on which all of its work is done: the mask of an attention's last blocks is a branch that others skip. An unrolled
loop does several blocks a turn, so there are figures for one matrix instruction and for one exponential as well, of what is issued.
`before` and `after` are the shortest ways from the start to a loop and from there to the end, with each wait successful at once and
loops in between entered once.

What small kernels pay once stands under `whole`: how many instructions there are, how many of them up to the last barrier in front of
all loops that work (`setup`: barriers, descriptors, tensor memory), and from the first barrier behind all of them (`teardown`).

Beside them stands the tile of gemm.pipe by other compilers, which need no GPU either: Triton, and CuTe DSL by an interpreter that has
nvidia-cutlass-dsl (`--cute`, this one if it is left out), and the kernels of two libraries in CuTe DSL if that interpreter has them
(cute_libraries.py). With `--only`, other examples and compilers remain as they were recorded.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, write

# What a loop is for, by the beginning of its instructions' names.
WORK = {
    "mma": r"UTC\w*MMA|[HQI]GMMA|[HQI]MMA",
    "load": r"UTMALDG|UBLKCP|LDGSTS",
    "exponential": r"MUFU\.EX2",
    "store": r"UTMASTG|STG|UTMAREDG",
}
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?P<predicate>@!?U?P\w+\s+)?(?P<name>[A-Z][\w.]*)(?P<rest>[^;]*);")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_FUNCTION = re.compile(r"^\.text\.([\w$.]+):")
_TARGET = re.compile(r"\.L_x_\d+")
_ENDS = ("EXIT", "RET")
_BARRIERS = ("BAR.SYNC", "UCGABAR_WAIT", "CCGABAR_WAIT")  # of a CTA, and of a cluster


@dataclass(frozen=True)
class Instruction:
    """`targets`: the labels that it may jump to; `falls`: whether the next instruction may follow it."""

    name: str
    targets: tuple[str, ...]
    falls: bool


@dataclass(frozen=True)
class Loop:
    """`names`: its instructions, without those of loops inside it; `issued`: how many are on the shortest way that does its work;
    `before`, `after`: on the shortest ways to it and from it."""

    function: str
    names: tuple[str, ...]
    issued: int
    before: int
    after: int

    @property
    def work(self) -> dict[str, int]:
        counts = {kind: sum(bool(re.match(pattern, name)) for name in self.names) for kind, pattern in WORK.items()}
        return {kind: count for kind, count in counts.items() if count}

    def row(self) -> dict[str, Any]:
        each = {
            f"per {kind}": round(self.issued / count, 1) for kind, count in self.work.items() if kind in ("mma", "exponential")
        }
        ways = {"before": self.before, "after": self.after}
        return {"instructions": len(self.names), "issued": self.issued, **self.work, **each, **ways}


def functions(text: str) -> Iterator[tuple[str, list[Instruction], dict[str, int]]]:
    """Each function of a disassembly: its instructions, and where its labels stand."""
    name, instructions, labels = "", list[Instruction](), dict[str, int]()
    for line in text.splitlines():
        if found := _FUNCTION.match(line):
            if instructions:
                yield name, instructions, labels
            name, instructions, labels = found[1], [], {}
        elif found := _LABEL.match(line):
            labels[found[1]] = len(instructions)
        elif found := _INSTRUCTION.match(line):
            instructions.append(_instruction(found))
    if instructions:
        yield name, instructions, labels


def _instruction(found: re.Match[str]) -> Instruction:
    name, rest = found["name"], found["rest"]
    jumps = name.split(".")[0] in ("BRA", "JMP")
    targets = tuple(_TARGET.findall(rest)) if jumps or name == "BRX" else ()  # BRX: a table of them, in a comment
    always = not found["predicate"] and (name in (*_ENDS, "BRX") or (jumps and rest.split("`")[0].strip() == ""))
    return Instruction(name, targets, not always)


def loops(text: str) -> list[Loop]:
    """The innermost loops that work."""
    found = []
    for function, instructions, labels in functions(text):
        following = [_following(at, one, labels, len(instructions)) for at, one in enumerate(instructions)]
        bodies = _natural_loops(following)
        working = {head: body for head, body in bodies.items() if any(map(_kind, _names(instructions, body)))}
        for head, body in sorted(working.items()):
            inside = [other for at, other in bodies.items() if at != head and at in body]
            if any(at != head and at in body for at in working):
                continue
            own = body.difference(*inside)
            before, after = _distances(following, 0)[head], _distances(following, head)
            end = min((after[at] + 1 for at, one in enumerate(instructions) if at in after and one.name in _ENDS), default=0)
            issued = _shortest(instructions, following, head, body, own)
            found.append(Loop(function, _names(instructions, own), issued, before, end))
    return found


def wholes(text: str) -> dict[str, dict[str, int]]:
    """Of each function with loops that work: its instructions, and those in front of and behind the loops (see above)."""
    found = {}
    for function, instructions, labels in functions(text):
        following = [_following(at, one, labels, len(instructions)) for at, one in enumerate(instructions)]
        bodies = _natural_loops(following)
        working = {head for head, body in bodies.items() if any(map(_kind, _names(instructions, body)))}
        if not working:
            continue
        barriers = [at for at, one in enumerate(instructions) if one.name.startswith(_BARRIERS)]
        reached = {at: set(_distances(following, at)) for at in {0, *barriers, *working}}
        preceding = _preceding(following)
        dominators = _dominators(following, preceding)
        in_front = [at for at in barriers if all(dominators[head] >> at & 1 for head in working)]
        behind = [at for at in barriers if not working & reached[at] and all(at in reached[head] for head in working)]
        row = {"instructions": len(instructions)}
        if in_front:
            last = max(in_front, key=lambda at: dominators[at].bit_count())
            row["setup"] = len(reached[0].intersection(_distances(preceding, last)))
        if behind:
            row["teardown"] = max(len(reached[at]) for at in behind)
        found[function] = row
    return found


def _distances(following: Sequence[Sequence[int]], start: int) -> dict[int, int]:
    """How many instructions are issued from one, counted, to each that may follow, not counted, on the shortest way."""
    found, front = {start: 0}, [start]
    while front:
        reached = [(way, found[at] + 1) for at in front for way in following[at]]
        front = []
        for way, distance in reached:
            if way not in found:
                found[way] = distance
                front.append(way)
    return found


def _kind(name: str) -> str | None:
    return next((kind for kind, pattern in WORK.items() if re.match(pattern, name)), None)


def _shortest(
    instructions: Sequence[Instruction],
    following: Sequence[tuple[int, ...]],
    head: int,
    body: frozenset[int],
    own: frozenset[int],
) -> int:
    """Instructions on one way around the loop, of those that do the most work the shortest. Loops inside it cost nothing."""
    order, seen, stack = list[int](), {head}, [(head, iter(following[head]))]
    place = dict[int, int]()
    while stack:  # depth first: every instruction comes behind those that follow it, but for jumps back
        at, ways = stack[-1]
        way = next((way for way in ways if way in body and way not in seen), None)
        if way is None:
            place[at] = len(order)
            order.append(at)
            stack.pop()
        else:
            seen.add(way)
            stack.append((way, iter(following[way])))
    best = dict[int, tuple[int, int] | None]()
    for at in order:
        ends = head in following[at]
        ahead = [best[way] for way in following[at] if way in body and place[way] < place[at] and way != head]
        options = [one for one in ahead if one is not None] + [(0, 0)] * ends
        work, cost = max(options) if options else (0, 0)
        counted = at in own
        best[at] = (work + (counted and _kind(instructions[at].name) is not None), cost - counted) if options else None
    found = best[head]
    return -found[1] if found else 0


def _names(instructions: Sequence[Instruction], body: set[int] | frozenset[int]) -> tuple[str, ...]:
    return tuple(instructions[at].name for at in sorted(body))


def _following(at: int, one: Instruction, labels: dict[str, int], count: int) -> tuple[int, ...]:
    ways = {at + 1} if one.falls and at + 1 < count else set[int]()
    ways |= {labels[target] for target in one.targets if labels.get(target, count) < count}
    return tuple(sorted(ways))


def _preceding(following: Sequence[tuple[int, ...]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in following]
    for at, ways in enumerate(following):
        for way in ways:
            found[way].append(at)
    return found


def _natural_loops(following: Sequence[tuple[int, ...]]) -> dict[int, frozenset[int]]:
    """Head -> all that reaches a jump back to it without passing it; a jump back is one to what dominates it."""
    before = _preceding(following)
    dominators = _dominators(following, before)
    found: dict[int, frozenset[int]] = {}
    for at, ways in enumerate(following):
        for head in ways:
            if dominators[at] >> head & 1:
                body, left = {head}, [at]
                while left:
                    one = left.pop()
                    if one not in body:
                        body.add(one)
                        left += before[one]
                found[head] = found.get(head, frozenset()) | body
    return found


def _dominators(following: Sequence[tuple[int, ...]], before: Sequence[Sequence[int]]) -> list[int]:
    """For each instruction those that every way to it passes, as bits; all of them for what nothing reaches."""
    every = (1 << len(following)) - 1
    sets = [every] * len(following)
    sets[0] = 1
    changed = True
    while changed:
        changed = False
        for at in range(1, len(following)):
            common = every
            for one in before[at]:
                common &= sets[one]
            new = common | 1 << at
            if before[at] and new != sets[at]:
                sets[at], changed = new, True
    return [0 if bits == every and at else bits for at, bits in enumerate(sets)]


# --- tools --------------------------------


def disassembler() -> str | None:
    """nvdisasm on PATH, or in an installed package."""
    if found := shutil.which("nvdisasm"):
        return found
    for package, pattern in (("nvidia", "cu*/bin/nvdisasm"), ("triton", "backends/nvidia/bin/nvdisasm")):
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(folder).glob(pattern), reverse=True):
                return str(path)
    return None


def disassembled(cubin: bytes, tool: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=True).stdout


def figures(path: Path, tool: str) -> dict[str, Any]:
    """Of one example."""
    import pipec

    program = pipec.compile(path)
    found: dict[str, Any] = {}
    text = disassembled(program.cubin(), tool)
    for loop in loops(text):
        found.setdefault(loop.function, []).append(loop.row())
    return {"arch": program.arch, "loops": found, "whole": wholes(text)}


# Each writes the cubin of the tile of gemm.pipe to standard output, and its version to standard error.
_TRITON = (
    "import sys, triton, triton_gemm; sys.stdout.buffer.write(triton_gemm.compile_once()[2].asm['cubin']); "
    "print(triton.__version__, file=sys.stderr)"
)
_CUTE = (
    "import sys, importlib.metadata, cute_gemm; sys.stdout.buffer.write(cute_gemm.cubin()); "
    "print(importlib.metadata.version('nvidia-cutlass-dsl'), file=sys.stderr)"
)


_LIBRARIES = (
    "import sys, importlib.metadata, cute_libraries; sys.argv = ['', *{arguments!r}.split()]; cute_libraries.main(); "
    "print(importlib.metadata.version({package!r}), file=sys.stderr)"
)
_OF_LIBRARIES = {
    "flash-attn-4": ("attention 64 full", "attention 128 full", "attention 128 causal", "attention 128 lengths"),
    "quack-kernels": (
        *("gemm bf16 1 256", "gemm mxfp8 1 192", "gemm nvfp4 1 192"),
        *("gemm bf16 2 256", "gemm mxfp8 2 192", "gemm nvfp4 2 192"),
    ),
}


def rivals(tool: str, cute: str = sys.executable) -> dict[str, Any]:
    """The same GEMM from other compilers, each in a process of its own, and kernels of libraries in CuTe DSL; or why there is none."""
    libraries = {
        f"{package}: {arguments}": _rival(tool, cute, _LIBRARIES.format(arguments=arguments, package=package), {})
        for package, kernels in _OF_LIBRARIES.items()
        for arguments in kernels
    }
    return {
        **libraries,
        "triton": _rival(tool, sys.executable, _TRITON, {}),
        "cute": _rival(tool, cute, _CUTE, {}),
        "cute, two K blocks a turn": _rival(tool, cute, _CUTE, {"GEMM_BK": "128"}),
    }


def _rival(tool: str, interpreter: str, program: str, more: dict[str, str]) -> Any:
    # CuTe DSL asks the driver for the architecture unless it is told.
    environment = {**os.environ, "CUTE_DSL_ARCH": "sm_100a", "PYTHONWARNINGS": "ignore", **more}
    folder = ROOT / "benchmarks" / "compiling"
    run = subprocess.run([interpreter, "-c", program], capture_output=True, cwd=folder, env=environment, check=False)
    told = run.stderr.decode().strip().splitlines()
    if run.returncode:
        return told[-1]
    text = disassembled(run.stdout, tool)
    return {"version": told[-1], "loops": [loop.row() for loop in loops(text)], "whole": next(iter(wholes(text).values()), {})}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--name", default="sass")
    parser.add_argument("--only", default="")
    parser.add_argument("--cute", default=sys.executable)
    options = parser.parse_args()
    tool = disassembler()
    if tool is None:
        print(
            "nvdisasm is missing: it comes with a CUDA toolkit, and with Triton (python -m pip install 'pipec[oracle]')",
            file=sys.stderr,
        )
        return 1
    only = {name for name in options.only.split(",") if name}
    paths = [path for path in sorted((ROOT / "examples").glob("*.pipe")) if not only or path.stem in only]
    told = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    rows = {path.stem: figures(path, tool) for path in paths}
    recorded = json.loads((RESULTS / f"{options.name}.json").read_text())["figures"] if only else None
    if recorded is not None:
        rows = dict(sorted((recorded["examples"] | rows).items()))
    kinds = Counter(
        kind for row in rows.values() for found in row["loops"].values() for loop in found for kind in loop if kind in WORK
    )
    found = {
        "disassembler": told,
        "loops that have": dict(sorted(kinds.items())),
        "rivals": rivals(tool, options.cute) if recorded is None else recorded["rivals"],
        "examples": rows,
    }
    write(options.name, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
