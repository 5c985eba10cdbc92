"""Texts in which something is missing or too much: the reader says what it does not understand, and where, and never fails otherwise."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipec.verify.network import Unreadable
from pipec.verify.reader.read import Reading
from pipec.verify.reader.text.instructions import _split
from pipec.verify.reader.text.lexical import plain
from tests.verify.test_places_of_barriers import ARRIVAL, TEXT, changed

ATTACKED = sorted((Path(__file__).parent / "attacked").glob("*.ptx"))
TEXTS = [plain(path.read_text(encoding="utf-8")) for path in ATTACKED if path.stem != "many_states"]
STATEMENT = re.compile(r"(?<![\w.])(?P<opcode>[a-z]\w*\.[\w.:]+)\s+(?P<operands>[^;{}]+);")
OTHERS = ("0", "%r1", "_", "[%r1]", "%p1", "-1", "{%r1, %r2}", "99999999999999999999999", "0x", "")
SEEDS, ATTEMPTS = range(4), 60

# By a statement, the rest of what the reader says of it.
NAMED = {
    "mbarrier.arrive.shared::cta.b64;": "has too few operands",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1];": "has too few operands",
    "mbarrier.inval.shared::cta.b64;": "has too few operands",
    "cp.async.mbarrier.arrive.noinc.shared::cta.b64;": "has too few operands",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], 16;": "has too few operands",
    "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r1];": "has too few operands",
    "L: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1]; @!%p3 bra L;": "has too few operands",
    "bar.sync;": "has too few operands",
    "bar.red.and.pred %p3, 0;": "has too few operands",
    "bar.warp.sync;": "a meeting of some lanes of a warp is not understood",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1];": "has too few operands",
    "setp.eq.u32 %p3, %r0; @%p3 bra DONE;": "setp.eq.u32 with 2 operands is not understood",
    "setp.eq.u32 %p3, %r0, 1, 2; @%p3 bra DONE;": "setp.eq.u32 with 4 operands is not understood",
    "not.pred %p3; @%p3 bra DONE;": "not.pred with 1 operands is not understood",
    "mad.lo.u32 %r3, %r2, 8; mbarrier.arrive.shared::cta.b64 _, [%r3];": "mad.lo.u32 with 3 operands is not understood",
    "mapa.shared::cluster.u32 %r3, %r1; mbarrier.arrive.shared::cluster.b64 _, [%r3];": "with 2 operands is not understood",
    "ld.param.u32 %r3; setp.eq.u32 %p3, %r3, 0; @%p3 bra DONE;": "ld.param.u32 with 1 operands is not understood",
    "setp %p3, %r0, 0; @%p3 bra DONE;": "what decides this branch is not understood",
}


def understood(text: str) -> str:
    """Why a text is not read, with the line; or nothing. Raises whatever else the reader fails with."""
    try:
        Reading(text, None)
    except Unreadable as why:
        return str(why)
    return ""


@pytest.mark.parametrize("statement", NAMED)
def test_it_is_said_what_is_not_understood(statement: str) -> None:
    why = understood(changed(ARRIVAL, f"  {statement} {ARRIVAL}"))
    assert NAMED[statement] in why
    assert why.startswith(f"line {TEXT.count(chr(10), 0, TEXT.index(ARRIVAL)) + 1}: ")


def test_an_opcode_that_ends_too_early() -> None:
    text = (Path(__file__).parents[1] / "golden" / "gemm_clc.ptx").read_text(encoding="utf-8")
    changed_ = text.replace("query_cancel.is_canceled.pred.b128", "query_cancel", 1)
    assert changed_ != text and "what decides" in understood(changed_)


def test_a_parameter_of_a_type_that_there_is_not() -> None:
    assert not understood(changed(".param .u32 n", f".param .u{'9' * 400} n"))


def _fewer_and_more() -> Iterator[str]:
    """Texts in which an operand is missing, or there twice: for each opcode once."""
    seen = set[str]()
    for text in TEXTS:
        for found in STATEMENT.finditer(text):
            if found["opcode"] in seen:
                continue
            seen.add(found["opcode"])
            operands = _split(found["operands"])
            for at in range(len(operands)):
                for other in (operands[:at] + operands[at + 1 :], operands[: at + 1] + operands[at:]):
                    yield f"{text[: found.start()]}{found['opcode']} {', '.join(other)};{text[found.end() :]}"


def test_operands_that_are_missing_or_too_many() -> None:
    said = [understood(text) for text in _fewer_and_more()]
    assert len(said) > 100 and sum("operands" in why for why in said) > len(said) // 10


@pytest.mark.parametrize("seed", SEEDS)
def test_words_that_are_lost_or_others(seed: int) -> None:
    draw, said = random.Random(seed), set()
    for _ in range(ATTEMPTS):
        text = draw.choice(TEXTS)
        words = [*re.finditer(r"[\w$%.:]+|[^\w\s]", text)]
        word, other = draw.choice(words), draw.choice(words)[0]
        instead = draw.choice(("", draw.choice(OTHERS), other, word[0][1:], word[0] + other, f"{word[0]} {other}"))
        said.add(understood(text[: word.start()] + instead + text[word.end() :]))
    assert len(said) > 10
