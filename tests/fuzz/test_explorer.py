"""The token model on kernels of which it is known what happens."""

import pytest
from fuzz.explorer import Event, Process, explore
from fuzz.stand_ins import Int, Pipe, run_roles

TENSORS = ("x", "y", "turns")


def found(roles: dict[str, str], pipes: list[Pipe], ctas: int = 1, **sizes: int) -> str:
    return (
        run_roles({pipe.name: pipe for pipe in pipes}, {}, roles, {"n": 3, **sizes}, {"ix": [1]}, TENSORS, ctas)
        .explored(50_000)
        .kind
    )


FILL = "for i in range(n):\n    with p.produce() as s:\n        tma.load(s.x, x[i * 8, 0])\n"
READ = "for i in range(n):\n    with p.consume() as s:\n        store(y[i * 8, 0], s.x)\n"


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("kind", ["tma", "multicast"])
def test_a_ring(stages: int, kind: str) -> None:
    pipes, ctas = [Pipe("p", stages, kind)], 2 if kind == "multicast" else 1
    fill = FILL.replace("0])", '0], multicast="x")') if kind == "multicast" else FILL
    assert found({"a": fill, "b": READ}, pipes, ctas) == "right"
    assert found({"a": fill, "b": READ.replace("(n)", "(n + 1)")}, pipes, ctas) == "deadlock"
    assert found({"a": fill.replace("(n)", "(n + 1)"), "b": READ}, pipes, ctas) in ("rest", "deadlock")


def test_two_loads_with_a_wait_between_them() -> None:
    pipes = [Pipe("p", 2, "tma"), Pipe("q", 1, "none")]
    between = "with p.produce() as s:\n    tma.load(s.a, x[0, 0])\n    q.consumer_signal_and_step()\n    tma.load(s.b, x[8, 0])\n"
    behind = "with p.produce() as s:\n    tma.load(s.a, x[0, 0])\n    tma.load(s.b, x[8, 0])\nq.consumer_signal_and_step()\n"
    reads = "with p.consume() as s:\n    q.producer_signal_and_step()\n    store(y[0, 0], s.a)\n    store(y[8, 0], s.b)\n"
    assert found({"a": between, "b": reads}, pipes) == "deadlock"
    assert found({"a": behind, "b": reads}, pipes) == "right"


@pytest.mark.parametrize(("n", "what"), [(2, "right"), (3, "deadlock")])
def test_a_condition_that_wraps(n: int, what: str) -> None:
    fill = "for i in range(n):\n    if i + 2147483646 > 0:\n        p.producer_signal_and_step()\n"
    assert found({"a": fill, "b": "for i in range(n):\n    p.consumer_signal_and_step()\n"}, [Pipe("p", 2, "none")], n=n) == what
    assert Int(2**31 - 1) + 1 == -(2**31)


def test_turns() -> None:
    body = "with semaphore(turns[0], block.x, 2):\n    pass\n"
    assert found({"a": body}, [], 2) == "right"
    assert found({"a": body + body}, [], 2) in ("confusion", "deadlock")
    assert found({"a": "if block.x == 1:\n    " + body.replace("\n", "\n    ")}, [], 2) == "deadlock"


def test_a_thread_that_falls_two_phases_behind() -> None:
    """Some order of events is wrong, though another is not."""
    quick = Process("quick", [Event("full", phase, count=1) for phase in range(2)])
    slow = Process("slow", [Event("full", 0, wait=True)])
    assert explore([quick, slow], {"full": 1}).kind == "confusion"
    held = Process("held", [Event("full", 0, count=1), Event("empty", 0, wait=True), Event("full", 1, count=1)])
    gives = Process("gives", [Event("full", 0, wait=True), Event("empty", 0, count=1), Event("full", 1, wait=True)])
    assert explore([held, gives], {"full": 1, "empty": 1}).kind == "right"


def test_a_stage_that_is_overwritten() -> None:
    """The reader has given its stage back, and reads on."""
    writes = [Event("full", 0, count=1, touches=frozenset([("slot", True)])), Event("empty", 0, wait=True)]
    writes.append(Event("full", 1, count=1, touches=frozenset([("slot", True)])))
    reads, touched = [Event("full", 0, wait=True)], frozenset([("slot", False)])
    right = [*reads, Event("empty", 0, count=1, touches=touched), Event("full", 1, wait=True)]
    wrong = [*reads, Event("empty", 0, count=1), Event("full", 1, wait=True, touches=touched)]
    counts = {"full": 1, "empty": 1}
    assert explore([Process("w", writes), Process("r", right)], counts).kind == "right"
    assert explore([Process("w", writes), Process("r", wrong)], counts).kind == "race"


def test_bytes_hold_a_phase_open() -> None:
    load = Process("load", [Event("full", 0, count=1, bytes=2)])
    copies = [Process("copy", [Event("full", 0, bytes=-1)], (0, 1)) for _ in range(2)]
    reader = Process("reader", [Event("full", 0, wait=True)])
    assert explore([load, *copies, reader], {"full": 1}).kind == "right"
    assert explore([load, copies[0], reader], {"full": 1}).kind == "deadlock"
