"""A text that is spelt in another way means the same, and whatever comments and strings contain means nothing: the reader finds the same
network, or says that it does not understand the spelling."""

import random
import re
from collections.abc import Iterator

import pytest
from fuzz.fuzz_ptx import text

from pipec.protocol.judge import judge
from pipec.record import replace
from pipec.sim.ptx.tokens import Token, tokenize
from pipec.verify.network import Network, Unreadable
from pipec.verify.reader.read import read
from pipec.verify.reader.text.statements import entries_of

CODE = ("bar.sync 0;", "ret;", "}", "{", "; }", ".entry other() {", "$L:", "it's", ".reqntid 64", "mov.b32 %r1, 7;")
# In a string, and in a comment, also what begins or ends the other.
STRINGS = (*CODE, "//", "/*", "*/", "// x", "x; // }")
COMMENTS = (*CODE, '"', '"a', "//", "/*", 'a" b "')
SEEDS = range(60)


def respelled(ptx: str, draw: random.Random) -> str:
    """The same tokens with other white space, comments and numbers, and with pragmas of which nobody knows; or with a register that is
    called like a special one, which assemblers take."""
    head, entry, rest = ptx.partition(".visible .entry")
    names = sorted({*re.findall(r"%r\d+\b", rest)})
    if "%laneid" not in rest and draw.random() < 0.3:
        rest = re.sub(rf"{draw.choice(names)}\b", "%laneid", rest).replace("{", "{ .reg .b32 %laneid;", 1)
    return head + "".join(_spelt(tokenize(entry + rest)[:-1], draw)) + "\n"


def _spelt(tokens: list[Token], draw: random.Random) -> Iterator[str]:
    depth = 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        depth += {"{": 1, "}": -1}.get(token.text, 0)
        if before is not None and _parts(before, token):
            yield draw.choice((" ", " ", " ", "\n", "\t", f"/* {draw.choice(COMMENTS)} */", f"// {draw.choice(COMMENTS)}\n"))
        if token.kind == "integer" and before is not None and before.text != "<":
            yield _number(token.text, draw)
        else:
            yield _parted(token.text, draw) if draw.random() < 0.005 else token.text
        if token.text == ";" and depth == 1 and draw.random() < 0.1:
            yield f' .pragma "{draw.choice(STRINGS)}";'
        if token.text == ";" and depth == 1 and draw.random() < 0.003:
            yield _inner(draw.choice([one.text for one in tokens if one.text.startswith("%r")] or ["%r0"]), draw)


def _inner(register: str, draw: random.Random) -> str:
    """A scope with another register of that name, or a variable."""
    blank = draw.choice(("", " ", "\n", "/* */"))
    family = f"{register.rstrip('0123456789')}{blank}<{blank}999{blank}>"
    declared = draw.choice((f".reg .b32{blank}{register}", f".reg{blank}.b32 {family}", f".local .b32 {register}"))
    return f" {{ {declared}; mov.b32 {register}, 7; }}"


def _parts(before: Token, token: Token) -> bool:
    """Whether white space stands there in ordinary texts."""
    if before.text in (";", ",", "{", "}", ")") or token.text in ("{", "}"):
        return True
    return before.kind != "mark" and token.kind != "mark" or token.text in ("[", "@", "-") and before.text not in ("[", "+", "-")


def _parted(text: str, draw: random.Random) -> str:
    """An opcode with white space in it, where assemblers take it."""
    places = [] if text[:1] in ("%", ".") else [at for at, letter in enumerate(text) if letter == "."]
    if not places:
        return text
    at = draw.choice(places)
    return text[:at] + draw.choice((" ", "\n", "/* */")) + text[at:]


def _number(text: str, draw: random.Random) -> str:
    if not text.isdigit() or text[0] == "0":
        return text
    return draw.choice((text, text, hex(int(text)), f"0{int(text):o}", bin(int(text))))


def _meaning(network: Network) -> Network:
    """The network without the lines of the text."""
    processes = [
        replace(process, states=tuple([replace(state, line=0) for state in process.states])) for process in network.processes
    ]
    return replace(
        network,
        processes=tuple(processes),
        assumptions=tuple([replace(assumed, lines=()) for assumed in network.assumptions]),
    )


def _read(ptx: str) -> Network | None:
    try:
        return _meaning(read(ptx))
    except Unreadable:
        return None


def test_another_spelling_is_the_same_network() -> None:
    understood = 0
    for seed in SEEDS:
        ptx, draw = text(random.Random(seed)), random.Random(seed)
        network = _read(ptx)
        for _ in range(3 if network is not None else 0):
            other = respelled(ptx, draw)
            found = _read(other)
            assert found in (None, network), other
            understood += found is not None
    assert understood > 50


KERNEL = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k({parameters})
.reqntid 32{directives}
{{
	.reg .pred %p<6>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.shared .align 8 .b64 bar[{extent}];
	.shared .align 8 .b64 more[4];
	mov.u32 %r1, %tid.x;
	setp.ne.s32 %p1, %r1, 0;
	mov.u32 %r3, 0;
	setp.ne.s32 %p4, %r3, 0;
	@%p1 bra $A;
	mbarrier.init.shared.b64 [bar], 32;
$A:
	bar.sync 0;
	mbarrier.arrive.shared.b64 %rd1, [bar];
$W:
	mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
	@!%p2 bra $W;
{then}
	ret;
}}
"""
HANG = "$H:\n\tmbarrier.try_wait.parity.shared.b64 %p3, [bar], 1;\n\t@!%p3 bra $H;\n"
UNLESS = "\tsetp.eq.s32 %p4, %r3, 0;\n\t@%p4 bra $E;\n" + HANG + "$E:"


def kernel(then: str = "", *, parameters: str = "", directives: str = "", extent: str = "4") -> str:
    return KERNEL.format(then=then, parameters=parameters, directives=directives, extent=extent)


def test_the_kernel_is_proved_until_it_hangs() -> None:
    assert judge(kernel(), "k").certificate is not None
    assert judge(kernel(UNLESS), "k").certificate is not None
    assert judge(kernel(HANG), "k").certificate is None


HIDDEN = {
    "behind a comment in a string": '\t.pragma "x//";\n\tmov.u32 %r3, 1;\n' + UNLESS,
    "between comments in strings": '\t.pragma "x/*";\n' + HANG + '\t.pragma "*/";\n',
    "behind a brace in a string": '\t.pragma "x; }";\n' + HANG,
    "behind a quote in a comment": '// "\n' + HANG + '// "\n',
    "behind a quote in a string": '\t.pragma "\\"";\n' + HANG + '\t.pragma "\\"";\n',
    "behind a predicate beside values": "\ttex.1d.v4.f32.s32 {%r4, %r5, %r6, %r7}|%p4, [%rd3, {%r8}];\n"
    "\t@!%p4 bra $E;\n" + HANG + "$E:",
    "behind a second result": "\ttcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%r4, %r5}, %r3, [%r6];\n" + UNLESS,
}

SKIP = "\tsetp.eq.s32 %p4, {0}, {1};\n\t@%p4 bra $E;\n" + HANG + "$E:"
HIDDEN |= {
    "in a part of a register": "\t.reg .v2 .b32 %v;\n\tmov.b32 %v.x, 0;\n\tld.shared.v2.b32 %v, [more];\n"
    + SKIP.format("%v.x", 0),
    "in a register declared later": "$L:\n\t{ .reg .b32 %x; mov.b32 %x, 1; }\n\t@%p5 bra $D;\n\t.reg .b32 %x;\n\tmov.b32 %x, 0;\n"
    "\tsetp.eq.s32 %p5, 0, 0;\n\tbra $L;\n$D:\n" + SKIP.format("%x", 1),
    "in a register among numbered ones": "\t.reg .b32 %x3;\n\tmov.b32 %x3, 0;\n\t{ .reg .b32 %x<5>; mov.b32 %x3, 1; }\n"
    + SKIP.format("%x3", 1),
}


@pytest.mark.parametrize("then", HIDDEN.values(), ids=HIDDEN)
def test_what_hangs_does_not_hide(then: str) -> None:
    assert judge(kernel(then), "k").certificate is None


OTHER_LAUNCHES = ("\n.reqntid 64", ", 1\n.blocksareclusters", "\n.reqnctapercluster 2\n.reqnctapercluster 1", "\n.unheard_of 1")


@pytest.mark.parametrize("directives", OTHER_LAUNCHES)
def test_launches_are_understood_as_a_whole(directives: str) -> None:
    with pytest.raises(Unreadable, match="what is said of the launch"):
        read(kernel(directives=directives))


def test_variables_are_as_large_as_they_are_declared() -> None:
    """The barrier that is waited for is not the one that was made ready, though it would be if `bar` had one element."""
    then = HANG.replace("[bar], 1", "[more], 0")
    for extent in ("4", "0x4", "04", "0b100"):
        with pytest.raises(Unreadable, match="there is no barrier"):
            read(kernel(then, extent=extent).replace("mbarrier.init.shared.b64 [bar]", "mbarrier.init.shared.b64 [bar+16]"))
    with pytest.raises(Unreadable, match="how large the variable bar is"):
        read(kernel(extent="N"))


@pytest.mark.parametrize("left", ['\t.pragma "x;', "\tret; /* x", '\t.pragma "\\"";'])
def test_strings_and_comments_end(left: str) -> None:
    with pytest.raises(Unreadable, match="does not end") as found:
        read("\n\n" + left + "\n" + kernel())
    assert found.value.line == 3


def test_no_kernel_is_overlooked() -> None:
    other = kernel(HANG).partition(".visible")[2]
    for spelt in (other.replace(".entry k", ".entry/**/other"), other.replace(".entry k", ".entry // }\n other")):
        assert entries_of(kernel() + ".visible" + spelt) == ("k", "other")


DESCRIBED = '// pipec.kernel {"kernel": "k", "parameters": [], "roles": [], "barriers": [], "grid": [GRID, 1, 1]}\n'


def test_there_is_one_description_of_a_kernel() -> None:
    """Of two the launcher may follow the other one."""
    one, other = DESCRIBED.replace("GRID", "1"), DESCRIBED.replace("GRID", "2")
    assert _read(one + kernel()) is not None
    for text_ in (one + other + kernel(), one + one + kernel(), "// " + one + kernel(), kernel() + one + other):
        with pytest.raises(Unreadable, match="described twice"):
            read(text_)


def test_two_instructions_on_a_line_are_two() -> None:
    """Asking for all of tensor memory twice, say."""
    asks = "\ttcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [more], 512;"
    gives = "\tld.shared.b32 %r3, [more];\ttcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 512;"
    assert _read(kernel(f"{asks}\n{gives}")) is not None
    for between in ("\n", " "):
        with pytest.raises(Unreadable, match="asks for more than 512 columns"):
            read(kernel(between.join((asks, asks, gives, gives))))


def test_the_counter_of_turns_is_written_by_one_instruction() -> None:
    turns = """\tld.param.u64 %rd2, [counter];
	mov.u32 %r5, %ctaid.x;
	@%p1 bra $E;
$T:
	ld.acquire.gpu.global.u32 %r4, [%rd2];
	setp.ne.s32 %p5, %r4, %r5;
	@%p5 bra $T;
	add.s32 %r6, %r5, 1;
	st.release.gpu.global.u32 [%rd2], %r6;
$E:"""
    other = " st.relaxed.gpu.global.u32 [%rd2], 0;"
    head = DESCRIBED.replace("GRID", "8")
    assert [one.kind for one in read(head + kernel(turns, parameters=".param .u64 counter")).assumptions] == ["turns"]
    for between in ("", "\n"):
        written = re.sub("(%rd2], %r6;)", rf"\1{between}{other}", turns)
        network = read(head + kernel(written, parameters=".param .u64 counter"))
        assert [one.kind for one in network.assumptions] == ["polling"]
