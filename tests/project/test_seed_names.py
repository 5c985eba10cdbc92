"""Every name of the five pipeline pages is an operation of the language, on the type whose page it stands on; each operation is
called by a program that passes, and by one that is refused with a message that points at the call."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from diagnose import Options, diagnose
from seed_programs import RIGHT, WRONG, Wrong

from pipec.diag.message import Diagnostic
from pipec.sema.calls import dispatch as calls
from pipec.sema.language.operation import THREADS, Operation
from pipec.sema.language.operations import MEMBERS
from pipec.sema.meanings import Meaning
from pipec.sema.values import names
from pipec.source import Span

pytestmark = pytest.mark.xdist_group("seed names")  # one worker compiles the programs that several tests ask about

ROOT = Path(__file__).parents[2]

# The names of each page, as that page spells them; constructors and type parameters are listed below.
_RING_BOTH_SIDES = (
    "wait_producer", "wait_consumer", "try_wait_producer", "try_wait_consumer", "wait_producer_if_needed", "wait_consumer_if_needed",
    "producer_step", "consumer_step", "producer_mbar", "consumer_mbar", "producer_signal_and_step", "consumer_signal_and_step", "produce",
    "consume", "consume_explicit", "acquire_producer", "acquire_consumer", "init_mbars",
)  # fmt: skip
PAGES: dict[str, tuple[str, ...]] = {
    "ProducerConsumerPipeline": _RING_BOTH_SIDES,
    "producer stage": ("index", "mbar", "release", "payload", "stage", "barrier", "expect_bytes", "tmem", "tmem_offset"),
    "consumer stage": ("index", "mbar", "arrive", "release", "release_without_signal", "payload", "stage", "tmem", "tmem_offset"),
    "RolePipeline": (
        "producer_mbar", "consumer_mbar", "acquire", "commit", "commit_mma", "wait", "release", "release_no_step", "step", "num_stages",
    ),
    "InputTilePipeline": (
        "init_barriers", "try_acquire_producer", "try_acquire_consumer", "wait_producer_if_needed", "wait_consumer_if_needed",
        "producer_stage", "consumer_stage", "producer_mbar", "consumer_mbar", "producer", "consumer", "acquire_producer",
        "acquire_consumer", "drain_producer", "payload",
    ),
    "OutputTilePipeline": (
        "init_barriers", "acquire_for_mma", "release_from_mma", "acquire_for_epilogue", "release_from_epilogue", "producer", "consumer",
        "acquire_mma_linear", "acquire_epilogue_linear", "get_pipeline", "per_k", "per_k_epilogue",
    ),
    "EpiLoadPipeline": (
        "init_barriers", "produce", "acquire_producer", "wait_consumer", "producer_mbar", "producer_step", "consume", "consume_explicit",
        "acquire_consumer", "wait_producer", "consumer_stage", "consumer_step",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in PAGES.items() for name in names])
def test_the_name_is_an_operation(owner: str, name: str) -> None:
    assert name in MEMBERS[owner]


# --------------------------------------------------------------------------------------------------- a right and a wrong program

Call = tuple[str, Span]  # `receiver.name`; free operations have no receiver


@cache
def called(text: str) -> tuple[tuple[Call, ...], tuple[Diagnostic, ...]]:
    """The operations and constants that sema meets in a program, with their places, and what is said about the program."""
    found: list[Call] = []
    operate, constants = calls._operate, dict(names._CONSTANTS)

    def met(operation: Operation, receiver: object, span: Span) -> None:
        kind = getattr(getattr(receiver, "pipeline", receiver), "kind", None)
        pipelines = [one for one in operation.receivers if one in PAGES and one.endswith("Pipeline")]
        found.extend((f"{one}.{operation.name}", span) for one in operation.receivers if one not in pipelines or one == kind)

    def recorded(context: object, operation: Operation, receiver: Meaning | None, node: object) -> Meaning:
        met(operation, receiver, node.span)
        return operate(context, operation, receiver, node)

    def constant(name: str) -> object:
        def read(context: object, pipeline: object, span: Span) -> Meaning:
            found.append((f"{pipeline.kind}.{name}", span))
            return constants[name](context, pipeline, span)

        return read

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "_operate", recorded)
        for name in constants:
            patch.setitem(names._CONSTANTS, name, constant(name))
        # That the examples are proved is tests/checks.
        diagnostics = diagnose("names.pipe", text, Options.of(text), "limits" if text in texts("examples/*.pipe") else "prove")
    return tuple(found), tuple(diagnostics)


def blamed(text: str) -> Iterator[tuple[str, str]]:
    """The calls that a message points at, with its code."""
    found, diagnostics = called(text)
    for diagnostic in diagnostics:
        for label in diagnostic.labels:
            yield from ((name, diagnostic.code) for name, span in found if overlap(span, label.span))


def overlap(one: Span, other: Span) -> bool:
    return (one.line, one.column) < (other.end_line, other.end_column) and (other.line, other.column) < (
        one.end_line,
        one.end_column,
    )


@cache
def texts(pattern: str) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob(pattern))]


# These are taken up before any operation is looked at: tests/errors/names/grid_*.pipe, cluster_*.pipe, tests/errors/assumptions and the
# examples, and tests/faces/test_assumptions.py.
_HEAD = ("grid", "cluster", "assume")
ALL = sorted(f"{owner}.{name}" for owner, members in MEMBERS.items() for name in members if name not in _HEAD)


@pytest.mark.parametrize("text", RIGHT, ids=range(len(RIGHT)))
def test_right_programs_pass(text: str) -> None:
    assert called(text)[1] == ()


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: " ".join(wrong.names))
def test_the_message_points_at_the_call(wrong: Wrong) -> None:
    assert wrong.names.items() <= set(blamed(wrong.text))


def test_each_name_is_called_by_a_program_that_passes() -> None:
    found = {name for text in (*RIGHT, *texts("examples/*.pipe")) for name, _ in called(text)[0] if not called(text)[1]}
    assert sorted(set(ALL) - found) == []


def test_each_name_is_called_by_a_program_that_is_refused() -> None:
    missing = set(ALL)
    for text in (*(wrong.text for wrong in WRONG), *texts("tests/errors/*/*.pipe")):
        missing -= {name for name, _ in blamed(text)}
        if not missing:
            break
    assert sorted(missing) == []


# ------------------------------------------------------------------------------------------------------------- who may call it


def under_elect(text: str, line: int) -> str:
    """The statement that starts there, with its block, inside `with elect():`."""
    lines = text.split("\n")
    indent = len(lines[line - 1]) - len(lines[line - 1].lstrip())
    end = line
    while end < len(lines) and lines[end].startswith(" " * (indent + 1)):
        end += 1
    inner = [f"    {one}" for one in lines[line - 1 : end]]
    return "\n".join([*lines[: line - 1], " " * indent + "with elect():", *inner, *lines[end:]])


@pytest.mark.parametrize("action", sorted(action for action, threads in THREADS.items() if threads == "all threads"))
def test_what_all_threads_do_is_refused_for_one(action: str) -> None:
    """The column "who may call it" of the documents, against the checks."""
    found = (
        (text, name, span)
        for text in (*RIGHT, *texts("examples/*.pipe"))
        for name, span in called(text)[0]
        if MEMBERS[name.split(".", 1)[0]][name.split(".", 1)[1]].action == action
    )
    assert any((name, "E0410") in set(blamed(under_elect(text, span.line))) for text, name, span in found)
