"""Freedom from deadlock: proved for all trip counts, refuted at the smallest sizes, never claimed wrongly."""

import itertools
import random
import time
from pathlib import Path

import pytest
from examples.catalogue import EXAMPLES

from pipec.checks.protocol import check
from pipec.checks.protocol_model import programs
from pipec.checks.protocol_proof import Cases, Either, State, Step, Together, holds, prove
from pipec.checks.protocol_search import search
from pipec.diag.message import Diagnostic, Sink
from pipec.driver import Options, compile_source
from pipec.record import replace
from pipec.sema import tree
from pipec.source import Source


def kernel_of(text: str) -> tree.Kernel:
    state = compile_source(Source("t.pipe", text), Options(), "analyse")
    assert state.diagnostics == [] and state.trees
    return state.trees[0]


def judged(text: str) -> tuple[str, list[Diagnostic]]:
    sink = Sink()
    return check(kernel_of(text), sink).outcome, sink.diagnostics


def two_roles(first: str, second: str, p: int = 2, q: int = 1) -> str:
    """Roles `a` and `b` over rings p and q; F/E fill and empty a stage of p, G/D one of q; `N[...]` is a loop of N."""
    words = {"F": "with p.produce():", "E": "with p.consume():", "G": "with q.produce():", "D": "with q.consume():"}

    def body(text: str) -> str:
        lines, depth, counter = [], 2, itertools.count()
        for word in text.split():
            if word == "]":
                depth -= 1
            elif word.endswith("["):
                lines += [f"{'    ' * depth}for i{next(counter)} in range({word[:-1]}):", f"{'    ' * (depth + 1)}pass"]
                depth += 1
            else:
                lines += [f"{'    ' * depth}{words[word]}", f"{'    ' * (depth + 1)}pass"]
        return "\n".join(lines)

    clauses = {"F": "produces p", "E": "consumes p", "G": "produces q", "D": "consumes q"}

    def head(text: str) -> str:
        return " ".join(dict.fromkeys(clauses[word] for word in text.split() if word in clauses))

    rings = "\n".join(f"    {name} = ProducerConsumerPipeline(stages={stages})" for name, stages in (("p", p), ("q", q)))
    roles = "\n".join(f"    role {name}(warps=1) {head(text)}:\n{body(text)}" for name, text in (("a", first), ("b", second)))
    return f"kernel k(t: tensor[f32, N, M]):\n    grid(1)\n{rings}\n{roles}\n"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.pipe")), ids=lambda path: path.stem)
def test_the_examples_are_proved(path: Path) -> None:
    state = compile_source(Source(path.name, path.read_text()), Options(), "analyse")
    for kernel in state.trees or []:
        assert check(kernel, Sink()).outcome == "proved", kernel.name


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_loop_that_fills_before_anyone_empties_hangs_exactly_beyond_the_depth(depth: int) -> None:
    outcome, (diagnostic,) = judged(two_roles("N[ F ] G", "D N[ E ]", p=depth))
    assert (outcome, diagnostic.code) == ("refuted", "E0601")
    assert diagnostic.title == f"roles `a`, `b` wait for ever when N = {depth + 1}"


def test_the_same_with_a_known_count_within_the_depth_is_no_error() -> None:
    assert judged(two_roles("F F G", "D E E", p=2))[0] == "proved"
    assert judged(two_roles("F F F G", "D E E E", p=2))[0] == "refuted"


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        ("N[ F G ]", "N[ E D ]", "proved"),
        ("N[ F G ]", "N[ D E ]", "proved"),
        ("N[ F F G ]", "N[ D E E ]", "proved"),
        ("N[ F F F G ]", "N[ D E E E ]", "refuted"),
        ("N[ M[ F ] G ]", "N[ M[ E ] D ]", "proved"),
        ("N[ M[ F ] ]", "M[ N[ E ] ]", "open"),
        ("N[ F ] M[ G ]", "M[ D ] N[ E ]", "refuted"),
        ("N[ F ]", "M[ E ]", "refuted"),
        ("F N[ F ]", "N[ E ] E", "proved"),
        ("N[ F ] D", "G N[ E ]", "proved"),
    ],
)
def test_verdicts(first: str, second: str, outcome: str) -> None:
    assert judged(two_roles(first, second))[0] == outcome


def test_stages_left_filled_are_an_error() -> None:
    outcome, (diagnostic,) = judged(two_roles("N[ F ] F", "N[ E ]"))
    assert (outcome, diagnostic.code) == ("refuted", "E0602")
    assert diagnostic.title == "`p` is filled once, but consumed 0 times by role `b` when N = 0"


def test_a_forged_certificate_is_refused() -> None:
    kernel = kernel_of(two_roles("N[ F G ] F", "N[ E D ] E"))
    seen = programs(kernel)
    order = prove(seen, State(kernel))
    assert order is not None and holds(seen, order, State(kernel))
    (loop, *rest) = order
    assert isinstance(loop, Together)
    assert not holds(seen, tuple(rest), State(kernel)), "a loop left out"
    assert not holds(seen, (loop, *reversed(rest)), State(kernel)), "another order"
    assert not holds(seen, (Together(loop.roles, loop.body[:-1]), *rest), State(kernel)), "an event left out of an iteration"
    assert not holds(seen, (Together(loop.roles[:1], loop.body), *rest), State(kernel)), "a role left out of a loop"
    assert not holds(seen, order[:-1], State(kernel)), "a role that does not end"


def test_what_is_proved_never_fails_when_it_is_run() -> None:
    """Random pairs of roles: the proof and the exhaustive run of small sizes never contradict each other."""
    generator, proved = random.Random(11), 0
    for _ in range(120):
        first = _random_role(generator)
        second = first.translate(str.maketrans("FG", "ED"))
        for _ in range(generator.randint(0, 2)):
            second = _moved(generator, second)
        kernel = kernel_of(two_roles(first, second, p=generator.randint(1, 3), q=generator.randint(1, 2)))
        seen, state = programs(kernel), State(kernel)
        order = prove(seen, state)
        if order is not None and state.even():
            proved += 1
            assert search(kernel, seen)[0] is None, (first, second)
    assert proved > 20


def _moved(generator: random.Random, role: str) -> str:
    """One operation taken to another place."""
    words = role.split()
    word = words.pop(generator.choice([place for place, word in enumerate(words) if word in "ED"]))
    words.insert(generator.randint(0, len(words)), word)
    return " ".join(words)


def _random_role(generator: random.Random) -> str:
    parts: list[str] = []
    for _ in range(generator.randint(1, 3)):
        inner = " ".join(generator.choice("FG") for _ in range(generator.randint(1, 2)))
        parts.append(generator.choice([inner, f"N[ {inner} ]", f"M[ {inner} ]", f"N[ M[ {inner} ] ]"]))
    return " ".join(parts)


AHEAD = """kernel k(t: tensor[f32, N, M]):
    grid(1)
    scores = ProducerConsumerPipeline(stages={stages})
    values = ProducerConsumerPipeline(stages={stages})
    role a(warps=1) produces scores, values:
        for i in range({count}):
            with scores.produce():
                pass
            with values.produce():
                pass
    role b(warps=1) consumes scores, values:
        for first in range({ahead}):
            with scores.consume():
                pass
        for j in range({count}):
            if {more}:
                with scores.consume():
                    pass
            with values.consume():
                pass
"""


@pytest.mark.parametrize(
    ("count", "ahead", "more", "stages", "outcome"),
    [
        ("max(1, N)", 1, "j + 1 < max(1, N)", 1, "proved"),
        ("max(2, N)", 2, "j + 2 < max(2, N)", 2, "proved"),
        ("max(1, N)", 1, "max(1, N) > j + 1", 1, "proved"),
        ("max(1, N)", 1, "j != max(1, N) - 1", 1, "open"),  # `max(1, N) - 1` is an expression of its own
        ("max(1, N)", 1, "j < max(1, N) - 1", 1, "open"),
        ("max(2, N)", 2, "j + 2 < max(2, N)", 1, "refuted"),  # one stage for two that are taken before the first value
        ("N", 1, "j + 1 < N", 1, "refuted"),  # none to be taken ahead when N = 0
        ("max(1, N)", 1, "j + 2 < max(1, N)", 1, "refuted"),
        ("max(1, N)", 1, "j < max(1, N)", 1, "refuted"),
        ("max(1, N)", 1, "j > 0", 1, "proved"),
        ("max(1, N)", 1, "j > 1", 1, "refuted"),
        ("max(1, N)", 0, "j >= 0", 1, "proved"),
    ],
)
def test_a_role_that_works_ahead(count: str, ahead: int, more: str, stages: int, outcome: str) -> None:
    assert judged(AHEAD.format(count=count, ahead=ahead, more=more, stages=stages))[0] == outcome


def test_a_forged_case_is_refused() -> None:
    kernel = kernel_of(AHEAD.format(count="max(1, N)", ahead=1, more="j + 1 < max(1, N)", stages=1))
    seen = programs(kernel)
    order = prove(seen, State(kernel))
    assert order is not None and holds(seen, order, State(kernel))
    *before, cases = order
    assert isinstance(cases, Cases) and (cases.least, cases.peeled) == (1, 1)
    for wrong in (
        replace(cases, fronts=tuple((role, 1 - front) for role, front in cases.fronts)),
        replace(cases, fronts=cases.fronts[:1]),
        replace(cases, peeled=2),
        replace(cases, least=2),
        replace(cases, more=cases.more[:-1]),
    ):
        assert not holds(seen, (*before, wrong), State(kernel))


def test_cases_never_claim_what_fails_when_it_is_run() -> None:
    generator, proved = random.Random(5), 0
    for _ in range(150):
        least = generator.randint(0, 2)
        count = f"max({least}, N)" if least else "N"
        more = f"j {generator.choice('+-')} {generator.randint(0, 2)} {generator.choice(['<', '<=', '!='])} {count}"
        more = generator.choice([more, f"j {generator.choice(['>', '>=', '!='])} {generator.randint(0, 2)}"])
        kernel = kernel_of(AHEAD.format(count=count, ahead=generator.randint(0, 2), more=more, stages=generator.randint(1, 3)))
        seen, state = programs(kernel), State(kernel)
        order = prove(seen, state)
        if order is not None and state.even():
            proved += 1
            assert holds(seen, order, State(kernel))
            assert search(kernel, seen)[0] is None, more
    assert proved > 10


def test_branches_that_every_role_takes_alike_are_proved() -> None:
    text = """kernel k(t: tensor[f32, N, M]):
    grid(4)
    p = ProducerConsumerPipeline(stages=1)
    role a(warps=1) produces p:
        for i in range(N):
            if i % 2 == block.x:
                with p.produce():
                    pass
    role b(warps=1) consumes p:
        for j in range(N):
            if j % 2 == block.x:
                with p.consume():
                    pass
"""
    kernel = kernel_of(text)
    order = prove(programs(kernel), State(kernel))
    assert order is not None
    (loop,) = order
    assert isinstance(loop, Together) and isinstance(loop.body[0], Either) and isinstance(loop.body[0].then[0], Step)
    assert judged(text)[0] == "proved"
    assert judged(text.replace("j % 2 == block.x", "j % 2 != block.x"))[0] == "refuted"


def test_data_dependent_loops_are_left_open() -> None:
    text = """kernel k(t: tensor[f32, N, M]):
    grid(1)
    p = ProducerConsumerPipeline(stages=1)
    role a(warps=1) produces p:
        i = 0
        while i < N:
            with p.produce():
                pass
            i += 1
    role b(warps=1) consumes p:
        for j in range(N):
            with p.consume():
                pass
"""
    assert judged(text) == ("open", [])


def test_a_block_that_leaves_its_stages_is_found() -> None:
    text = two_roles("N[ F ]", "N[ E ]").replace(
        "        for i0 in range(N):\n            pass\n            with p.consume():\n                pass",
        "        if block.x == 0:\n            for i0 in range(N):\n                with p.consume():\n                    pass",
    )
    outcome, (diagnostic,) = judged(text)
    assert (outcome, diagnostic.code) == ("refuted", "E0602")
    assert diagnostic.title == "`p` is filled once, but consumed 0 times by role `b` when N = 1, block.x = 1"


def test_nested_loops_of_few_iterations_are_not_written_out_many_times() -> None:
    depth = 6
    heads = "\n".join(f"{'    ' * (2 + level)}for i{level} in range(8):" for level in range(depth))
    body = "    " * (2 + depth) + "with p.{}:\n" + "    " * (3 + depth) + "pass\n"
    text = "kernel k(t: tensor[f32, N, M]):\n    grid(1)\n    p = ProducerConsumerPipeline(stages=2)\n"
    text += f"    role a(warps=1) produces p:\n{heads}\n{body.format('produce()')}"
    text += f"    role b(warps=1) consumes p:\n{heads}\n{body.format('consume()')}"
    started = time.process_time()
    assert judged(text)[0] == "proved"
    assert time.process_time() - started < 5
