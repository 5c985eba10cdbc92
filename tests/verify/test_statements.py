"""Statements on a line of their own are read at once; those that are spread over lines are read the same."""

import re
from random import Random

import pytest
from examples.catalogue import Case, cases, compiled

from pipec.verify.network import Unreadable
from pipec.verify.reader.read import read
from pipec.verify.reader.text.statements import Kernel, entries_of, kernel_of

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k()\n.reqntid 32\n{\n"
STATEMENTS = """\t.reg .pred %p<3>;
\t.reg .b32 %r<9>;
done : mov.b32 %r1, 7;
\t@!%p1 bra done;
\t@%p2 bra.uni $L__BB0_2;
$L__BB0_2:
\tmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1+8], %r2;
\t{ mov.b64 {%r1, %r2}, %r3; }
\tfence.proxy.async.shared::cta ;
\tsetp.eq.b32 %p1|%p2, %r1, 0;  ret;
"""


def outline(kernel: Kernel) -> object:
    code = [(one.opcode, one.predicate, one.negated, one.operands, one.first) for one in kernel.code]
    return code, kernel.labels, (kernel.parameters, kernel.directives, kernel.shared)


def spread(text: str) -> str:
    """With a line's end behind each opcode."""
    return re.sub(r"(?m)^(\s*(?:[\w$]+ :\s+)?(?:@!?%p\d+ )?[a-z][\w.:]*)(?=[ \t]+[^: \t])", r"\1\n", text)


def test_lines_and_spread_statements() -> None:
    text = HEAD + STATEMENTS + "}\n"
    assert spread(text).count("\n") > text.count("\n") + 4
    assert outline(kernel_of(text, None)) == outline(kernel_of(spread(text), None))
    found = kernel_of(text, None)
    assert found.labels == {"done": 0, "$L__BB0_2": 3}
    assert [one.opcode for one in found.code][:3] == ["mov.b32", "bra", "bra.uni"]
    assert found.code[3].operands == ("%p1", "[%r1+8]", "%r2") and found.code[6].first == ("%p1", "%p2")


@pytest.mark.parametrize("case", [case for case in cases() if not case.constants][::6], ids=lambda case: case.name)
def test_examples_spread(case: object) -> None:
    ptx = compiled(case).ptx  # type: ignore[arg-type]
    assert ptx is not None
    body = re.sub(r"//[^\n]*", "", ptx)
    for name in entries_of(ptx):
        assert outline(kernel_of(ptx, name)) == outline(kernel_of(spread(body), name))


def test_shared_variables_of_others() -> None:
    text = ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 8 .b64 bars[4];\n" + HEAD + "\tret;\n}\n"
    assert kernel_of(text, None).shared == {"dynamic": 1 << 19, "bars": 1 << 20}


def test_operands_in_braces_are_one() -> None:
    code = kernel_of(HEAD + "\tmov.b64 {%r1, %r2}, %rd3;\n\tret;\n}\n", "k").code
    assert code[0].operands == ("{%r1, %r2}", "%rd3")


def test_variables_of_other_kernels_are_not_the_kernels_own() -> None:
    local = "\t.shared .align 8 .b64 bar[2];\n"
    found = kernel_of(f"{HEAD}{local}}}\n{HEAD.replace('k()', 'other()')}{local}}}\n", "other")
    assert list(found.shared) == ["bar"]


def test_two_variables_of_one_name_are_not_read() -> None:
    """Scopes are read as one: each has a variable of its own."""
    local = "\t{ .shared .align 8 .b64 bar;\n\tmbarrier.inval.shared.b64 [bar]; }\n"
    assert list(kernel_of(f"{HEAD}{local}}}\n", "k").shared) == ["bar"]
    with pytest.raises(Unreadable, match="two variables in shared memory"):
        kernel_of(f"{HEAD}{local}{local}}}\n", "k")


def test_registers_of_braces_hide_none_around_them() -> None:
    def within(inner: str) -> str:
        return HEAD + "\t.reg .b32 %r<9>;\n{\n\t.reg .b32 %inner;\n\tmov.b32 %inner, 1;\n" + inner + "}\n\tret;\n}\n"

    beside = within("}\n{\n\t.reg .b32 %inner;\n\tmov.b32 %inner, 2;\n")
    nothing = ("%inner", "$nothing")
    assert [one.operands for one in kernel_of(beside, None).code] == [nothing, ("%inner", "1"), nothing, ("%inner", "2"), ()]
    for hiding in ("%r<2>", "%r3", "%other, %inner"):
        with pytest.raises(Unreadable, match="hides another"):
            kernel_of(within("{ .reg .b32 " + hiding + "; }\n"), None)


@pytest.mark.parametrize("depth", range(6))
def test_the_kernel_ends_with_its_brace(depth: int) -> None:
    nested = "{ mov.b64 {%r1, %r2}, %r3;\n" * depth + "}\n" * depth
    text = HEAD + nested + "\tret;\n}\n.visible .entry other()\n.reqntid 32\n{\n\ttrap;\n}\n"
    assert [one.opcode for one in kernel_of(text, "k").code] == ["mov.b64"] * depth + ["ret"]
    with pytest.raises(Unreadable, match="does not end"):
        kernel_of(text.partition("}\n.visible")[0], None)


@pytest.mark.parametrize("case", [None, *cases()[:6]], ids=range(7))
def test_what_is_defined_is_known_before_an_instruction_is_made(case: Case | None) -> None:
    text = HEAD + STATEMENTS + "}\n" if case is None else compiled(case).ptx or ""
    for name in entries_of(text):
        code = kernel_of(text, name).code
        firsts = [code.first(number) for number in range(len(code))]
        assert firsts == [one.first for one in code] and len({*code.opcodes}) > 2
        assert all(alone in ("", first[0]) for alone, first in zip(code.defined, firsts, strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_no_address_in_front_of_a_variable_or_behind_it_is_in_another(seed: int) -> None:
    """The assembler may place them in any order, with any room in between."""
    random = Random(seed)
    sizes = [random.choice((1, 2, 8, 100, 4096, 100_000)) for _ in range(random.randint(2, 20))]
    text = "".join(
        f"\t.shared .align {random.choice((8, 16, 128, 1024))} .b64 v{number}[{size}];\n" for number, size in enumerate(sizes)
    )
    places = kernel_of(f"{HEAD}{text}\tret;\n}}\n", None).shared
    for number, size in enumerate(sizes):
        at = places[f"v{number}"]
        others = {place for name, place in places.items() if name != f"v{number}"}
        assert all(place - (at + 8 * size) >= 228 << 10 for place in others if place > at)
        assert at + 8 * size <= 1 << 24


def test_more_variables_than_addresses_are_not_read() -> None:
    text = "".join(f"\t.shared .align 8 .b64 v{number};\n" for number in range(100))
    with pytest.raises(Unreadable, match="so many variables"):
        kernel_of(f"{HEAD}{text}\tret;\n}}\n", None)


_BARRIER = """.version 8.8
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k()
.reqntid 1
{{
	.reg .b32 %r<9>;
	.shared .align 8 .b64 bars[4];
	.shared .align 8 .b64 other;
	mov.u32 %r1, bars;
	mbarrier.init.shared::cta.b64 [{where}], 1;
	bar.sync 0;
	mbarrier.arrive.shared::cta.b64 _, [{where}];
	ret;
}}
"""


@pytest.mark.parametrize("where", ["bars", "bars+24", "%r1+0x18", "other", "dynamic", "dynamic+4096"])
def test_a_barrier_lies_in_a_variable(where: str) -> None:
    assert [ring.count for ring in read(_BARRIER.format(where=where), "k").rings] == [1]


@pytest.mark.parametrize("where", ["bars+32", "%r1+32", "other+8", "bars-8", "1024", "dynamic-8"])
def test_elsewhere_it_may_be_another_one(where: str) -> None:
    """At whatever number ptxas places a variable; and behind one the next may begin."""
    text = _BARRIER.format(where=where)
    with pytest.raises(Unreadable, match="lies in no variable"):
        read(text, "k")
