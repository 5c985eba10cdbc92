"""What a text can hide from a reader that looks too fast: a barrier instruction must not get lost, nor a value be taken for another."""

import pytest

from pipec.verify.network import Arrive, Network, Unreadable
from pipec.verify.reader.read import read
from pipec.verify.reader.text.opcodes import Kind, kind_of
from tests.verify.test_outside import KERNEL, network

MEETING = "bar.sync 1, 64;"


def meets(found: Network) -> bool:
    """Whether some process comes to the barrier of 64 threads, which 32 threads never complete."""
    rings = [number for number, ring in enumerate(found.rings) if ring.kind == "named" and ring.instances == (1,)]
    return any(
        isinstance(state.action, Arrive) and state.action.use.ring in rings for one in found.processes for state in one.states
    )


@pytest.mark.parametrize(
    "text",
    [
        MEETING,
        f".loc 1 5 0\n{MEETING}",
        f".loc 1 5 0 {MEETING}",
        f".loc 1 5 0, function_name $L__info0, inlined_at 1 2 3 {MEETING}",
        f".loc 1 5 0, function_name $L__info0 + 12, inlined_at 1 2 3\n.loc 1 6 0 {MEETING}",
        f"$HERE: .loc 1 5 0 {MEETING}",
        f".loc 1 5 0 $HERE: {MEETING}",
        f"{{ {MEETING} }}",
        f"{{ .reg .b32 %x; {MEETING} }}",
        f'.pragma "nounroll"; {MEETING}',
        "bar.sync\n1,\n64;",
        "/* */ bar.sync /* 2 */ 1, 64; // bar.sync 2",
        "barrier.cta.sync.aligned 1, 64;",
    ],
)
def test_a_meeting_is_seen(text: str) -> None:
    assert meets(network(text))


@pytest.mark.parametrize(
    ("text", "met"),
    [
        (f"bra $A; {{ $A: {MEETING} }} $A:", False),  # a label of a scope is not seen from outside
        (f"{{ bra $A; {MEETING} $A: }} $A:", False),
        (f"{{ bra $A; {{ $A: }} {MEETING} }} $A:", False),
        (f"{{ {{ bra $A; }} $A: {MEETING} }} $A:", True),
        (f"{{ bra $A; $A: }} {{ {MEETING} $A: }}", True),
        (f"{{ bra $A; {MEETING} $A: }} {{ $A: }}", False),
    ],
)
def test_a_branch_goes_to_the_label_of_the_innermost_scope(text: str, met: bool) -> None:
    assert meets(network(text)) is met


@pytest.mark.parametrize("text", ["{ $A: } bra $A;", "{ bra $A; } { $A: }"])
def test_a_label_is_not_seen_from_outside(text: str) -> None:
    with pytest.raises(Unreadable, match="does not exist"):
        network(text)


@pytest.mark.parametrize("text", [".file 1 bar.sync 1, 64;", ".unheard_of bar.sync 1, 64;", ".loc 1 bar.sync 1, 64;"])
def test_an_instruction_behind_a_directive_that_is_not_known(text: str) -> None:
    with pytest.raises(Unreadable):
        network(text)


# What the second of two scopes does with a register of its own that has the name of one in the first, which holds 1; whether it is known.
BESIDE = {
    "{ .reg .b32 x; mov.b32 x, 1; } { .reg .b32 x; mov.b32 x, 1; setp.eq.s32 %p7, x, 1;": True,
    "{ .reg .b32 x; mov.b32 x, 1; } { .reg .b32 x; setp.eq.s32 %p7, x, 1;": False,
    "{ .reg .b32 x; mov.b32 x, 1; } { .reg .b32 y, x; @%p1 mov.b32 x, 1; setp.eq.s32 %p7, x, 1;": False,
    "{ .reg .b32 x<3>; mov.b32 x1, 1; } { .reg .b32 x<4>; setp.eq.s32 %p7, x1, 1;": False,
    "{ .reg .b32 x1; mov.b32 x1, 1; } { .reg .b32 x<4>; setp.eq.s32 %p7, x1, 1;": False,
    "{ .reg .b32 x<3>; mov.b32 x1, 1; } { .reg .b32 x1; setp.eq.s32 %p7, x1, 1;": False,
    "{ .reg .pred x; setp.eq.s32 x, 1, 1; } { .reg .pred x; not.pred %p7, x;": False,
    "{ .reg .b32 x; mov.b32 x, 1; { .reg .b32 y; } setp.eq.s32 %p7, x, 1; } {": True,
}


@pytest.mark.parametrize("text", BESIDE)
def test_a_register_of_the_scope_beside(text: str) -> None:
    text = f"{text} @%p7 bra $END; bar.sync 1; }}"
    if BESIDE[text.partition(" @%p7 bra")[0]]:
        assert network(text)
    else:
        with pytest.raises(Unreadable, match="what decides this branch"):
            network(text)


# What declares the register %r41, or the variable x, in a scope of its own, however assemblers let it be written.
INNER = {
    ".reg .b32 %r41; mov.b32 %r41, 1;": "hides another",
    ".reg .b32%r41; mov.b32 %r41, 1;": "hides another",
    ".reg.b32 %r41; mov.b32 %r41, 1;": "hides another",
    ".reg .b32 %r42, %r41; mov.b32 %r41, 1;": "hides another",
    ".reg .b32 %r<50>; mov.b32 %r41, 1;": "hides another",
    ".reg .b32 %r <50>; mov.b32 %r41, 1;": "hides another",
    ".reg .b32 %r< 0x32 >; mov.b32 %r41, 1;": "hides another",
    ".reg .align 4 .b32 %r41; mov.b32 %r41, 1;": "is not understood",
    ".reg .v2 .b32 %r41; mov.b32 %r41.x, 1;": "is not understood",
    ".local .b32 x; mov.b32 %r42, x;": "hides another",
    ".local .align 8 .b8 x[8][2]; mov.b32 %r42, x;": "hides another",
    ".param .b32 x; ld.param.b32 %r42, [x];": "hides another",
    ".local .b32 y, x; mov.b32 %r42, x;": "is not understood",
    ".global .b32 x; mov.b32 %r42, x;": "is not understood",
    ".reg .b32 %r50; mov.b32 %r50, 1;": "",
    ".reg .b32 y<50>; mov.b32 y41, 1;": "",
    ".local .align 8 .b8 y[8][2]; mov.b32 %r42, y;": "",
    ".param .b32 y; ld.param.b32 %r42, [y];": "",
    '.pragma "nounroll", "other"; mov.b32 %r42, 1;': "",
}


@pytest.mark.parametrize("inner", INNER)
def test_a_name_of_an_inner_scope(inner: str) -> None:
    text = (
        f".reg .b32 %r<50>, x; mov.b32 %r41, 0; mov.b32 x, 0; {{ {inner} }} setp.ne.b32 %p7, %r41, x; @%p7 bra $END; bar.sync 1;"
    )
    if not INNER[inner]:
        network(text)
        return
    with pytest.raises(Unreadable, match=INNER[inner]):
        network(text)


@pytest.mark.parametrize(
    "text",
    [
        "$L: mov.b64 %rd9, known; .reg .b64 known; mov.b64 known, 1;",
        "mov.b64 %rd9, known; .shared .align 8 .b64 known;",
        "{ .shared .align 8 .b64 known; } mov.b64 %rd9, known;",
        "{ .local .align 8 .b64 known; } mov.b64 %rd9, known;",
        "mov.b64 %rd9, known1; .reg .b64 known<5>; mov.b64 known1, 1;",
    ],
)
@pytest.mark.parametrize(
    "outside", [".global .align 8 .u64 {};", ".extern .func {}(.param .b64 x);", ".const .u64 {}[2] = {{1, 2}};"]
)
def test_a_name_that_is_known_outside(text: str, outside: str) -> None:
    """In front of its declaration, and behind its scope, it is what it is outside."""
    before = outside.format("known1" if "known1" in text else "known")
    text = f"{text} setp.eq.b64 %p7, %rd9, 0; @%p7 bra $END; bar.sync 1;"
    with pytest.raises(Unreadable, match="hides"):
        read(KERNEL.format(interface="{}", body=text).replace(".visible", f"{before}\n.visible"))


@pytest.mark.parametrize("variable", [".shared .b32", ".local .b32", ".param .b32", ".shared .align 8 .b8"])
@pytest.mark.parametrize("name", ["%laneid", "%tid", "%r1"])
def test_a_variable_that_hides_a_register(variable: str, name: str) -> None:
    with pytest.raises(Unreadable, match="hides|not understood"):
        network(f"{variable} {name}; mov.b32 %r40, {name}; setp.lt.b32 %p7, %r40, 4; @%p7 bra $END; bar.sync 1;")


@pytest.mark.parametrize("character", ["\0", "\xa0", "\v", "\x1c", "\u0661", "\u2028", "#", "\x7f"])
def test_characters_that_assemblers_do_not_take(character: str) -> None:
    for text in (f"mov.b32{character} %r40, 1;", f"mov.b32 %r40, {character}1;", f"{character}\n"):
        with pytest.raises(Unreadable, match="the character"):
            network(text)
    if character != "\0":
        network(f"mov.b32 %r40, 1; // {character}\n")
    with pytest.raises(Unreadable, match="the character"):
        network(f"bar.sync 0; // \0\n{MEETING}")


NUMBERS = {
    "18446744073709551615": True,
    "18446744073709551616": False,
    "0x10000000000000001": False,
    "-9223372036854775809": False,
}


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_have_64_bits(number: str) -> None:
    text = f"mov.b64 %rd9, {number}; setp.eq.b64 %p7, %rd9, 1; @%p7 bra $END; bar.sync 1;"
    if NUMBERS[number]:
        network(text)
        return
    with pytest.raises(Unreadable):
        network(text)


@pytest.mark.parametrize("guard", ["@%p7", "@ %p7", "@ /* */ %p7", "@!%p7", "@! %p7", "@ ! %p7"])
def test_a_predicate_with_blanks(guard: str) -> None:
    assert meets(network(f"setp.eq.b32 %p7, 1, {int('!' not in guard)}; {guard} {MEETING}"))
    assert not meets(network(f"setp.eq.b32 %p7, 1, {int('!' in guard)}; {guard} {MEETING}"))


@pytest.mark.parametrize("register", ["smem", "smem<2>", "sme<2>, smem", "k_dim_B", "k_dim_<9>, k_dim_B"])
def test_a_register_that_hides_a_variable(register: str) -> None:
    with pytest.raises(Unreadable, match="hides"):
        network(f".reg .b32 {register};\nmov.b32 {register.split(',')[-1].split('<')[0].strip()}, 8;\n")


@pytest.mark.parametrize(
    "text", ["mov .u32 %r40, 7;", "mov\n.u32 %r40, 7;", "@%p1 mov /* */ .u32 %r40, 7;", "st .async.b32 [smem], 1;"]
)
def test_an_opcode_with_a_blank_in_it(text: str) -> None:
    """What is behind the blank is no operand: the register would not be seen to get a value, or a copy that completes a barrier."""
    with pytest.raises(Unreadable, match="with a blank in it"):
        network(text)


@pytest.mark.parametrize("register", ["%laneid", "%ctaid", "%cluster_ctarank", "%r<3>, %laneid", "%tid"])
@pytest.mark.parametrize("around", [("", ""), ("{", "}")], ids=["in the kernel", "in a scope"])
def test_a_register_that_hides_a_special_one(register: str, around: tuple[str, str]) -> None:
    name = register.split()[-1]
    special = name if name in ("%laneid", "%cluster_ctarank") else f"{name}.x"
    text = f"{around[0]} .reg .f16x2 {register}; setp.ne.b32 %p7, {special}, 0; {around[1]} @%p7 bra $END; bar.sync 1;"
    with pytest.raises(Unreadable, match=f"hides the special one {name}"):
        network(text)
    network(text.replace(f"{register};", "%lanes;"))


@pytest.mark.parametrize(
    ("load", "test", "understood"),
    [
        ("ld.param.u32 %r40", "setp.lt.s32 %p7, %r40, 0", True),
        ("ld.param.b32 %r40", "setp.lt.s32 %p7, %r40, 0", True),
        ("ld.param.u8 %rs1", "setp.lt.u16 %p7, %rs1, 300", False),
        ("ld.param.s16 %r40", "setp.ge.s32 %p7, %r40, 0", False),
        ("ld.param.u64 %rd40", "setp.ge.s64 %p7, %rd40, 0", False),
        ("ld.param.b8 %r40", "setp.ge.s32 %p7, %r40, 0", False),
    ],
)
def test_a_part_of_a_parameter_is_not_the_parameter(load: str, test: str, understood: bool) -> None:
    text = f"{load}, [k_dim_B];\n{test};\n@%p7 bra $X;\nbar.sync 2, 32;\n$X:\n"
    if understood:
        network(text)
    else:
        with pytest.raises(Unreadable):
            network(text)


def test_arrays_of_arrays_take_all_their_room() -> None:
    """The barrier behind an array is none of those in it."""
    text = ".shared .align 8 .b64 many[2][3];\n.shared .align 8 .b64 behind;\n@%p1 bra $READY;\n"
    text += "mov.b32 %r30, many;\nmov.b32 %r31, behind;\n"
    inits = "mbarrier.init.shared.b64 [%r30+16], 1;\nmbarrier.init.shared.b64 [%r31], 1;\n$READY:\nbar.sync 0;\n"
    signals = (
        "@%p1 bra $SIGNALLED;\nmbarrier.arrive.shared.b64 _, [%r30+16];\nmbarrier.arrive.shared.b64 _, [%r31];\n$SIGNALLED:\n"
    )
    found = network(text + inits + signals)
    assert len([ring for ring in found.rings if ring.kind == "mbarrier"]) == 2


# By an opcode and the order in which assemblers take the rest of it: what it does.
ORDERS = {
    "ld.acquire.gpu.global.b32": Kind.OBSERVE,
    "ld.global.acquire.gpu.b32": Kind.OBSERVE,
    "ld.gpu.relaxed.global.b32": Kind.OBSERVE,
    "ld.global.volatile.b32": Kind.OBSERVE,
    "ld.global.b32": Kind.COMPUTE,
    "st.gpu.global.release.b32": Kind.PUBLISH,
    "st.global.b32": Kind.EFFECT,
    "mbarrier.arrive.shared::cta.noComplete.b64": Kind.UNREAD,
    "mbarrier.arrive.shared::cta.release.cta.b64": Kind.ARRIVE,
    "tcgen05.ld.sync.aligned.red.32x32b.x2.min.s32": Kind.UNREAD,
    "tcgen05.ld.sync.aligned.32x32b.x2.b32": Kind.MEET_COMPUTE,
    "cp.async.mbarrier.arrive.shared::cta.noinc.b64": Kind.COPIES_ARRIVE,
    "cp.async.mbarrier.arrive.shared::cta.b64": Kind.UNREAD,
}


@pytest.mark.parametrize("opcode", ORDERS)
def test_parts_of_an_opcode_in_another_order(opcode: str) -> None:
    assert kind_of(opcode) is ORDERS[opcode]


@pytest.mark.parametrize("predicate", ["0", "1", "-1", "2", "-2", "4294967296"])
@pytest.mark.parametrize(
    "text", ["mov.pred %p7, {};", "selp.b32 %r40, 1, 0, {}; setp.ne.b32 %p7, %r40, 0;", "or.pred %p7, {}, 0;"]
)
def test_a_number_as_a_predicate(predicate: str, text: str) -> None:
    """Any other than 0 is true; of an even one the lowest bit is not."""
    text = f"{text.format(predicate)} @%p7 {MEETING}"
    if int(predicate) and int(predicate) % 2 == 0:
        with pytest.raises(Unreadable, match=f"the predicate {predicate}"):
            network(text)
    else:
        assert meets(network(text)) is bool(int(predicate))
