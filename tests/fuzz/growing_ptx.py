"""PTX that grows in one respect: each function takes a size and says the same thing that many times, or that deep."""

from collections.abc import Callable

_PTX = ".version 8.7\n.target sm_100a\n.address_size 64\n"
_ENTRY = ".visible .entry k() .reqntid 32,1,1\n{\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n.reg .pred %p<4>;\n"


def printf(width: str) -> Callable[[int], str]:
    """Asks for numbers of many characters."""
    extern = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"

    def make(size: int) -> str:
        form = f"%{width}d".encode() * max(1, size // (len(width) + 2)) + b"\0"
        text = f".global .align 1 .b8 form[{len(form)}] = {{{', '.join(map(str, form))}}};\n"
        body = ".local .align 8 .b8 buffer[64];\n{ .param .b64 pa; .param .b64 pb; .param .b32 rr;\nmov.u64 %d1, form;\n"
        body += "cvta.global.u64 %d1, %d1;\nmov.u64 %d2, buffer;\ncvta.local.u64 %d2, %d2;\nst.param.b64 [pa], %d1;\n"
        body += (
            "st.param.b64 [pb], %d2;\nmov.b32 %r1, 2147483647;\nst.local.b32 [buffer], %r1;\ncall (rr), vprintf, (pa, pb); }\n"
        )
        return _PTX + extern + text + _ENTRY + body + "ret;\n}\n"

    return make


def prefixed(word: str) -> Callable[[int], str]:
    return lambda size: _PTX + _ENTRY + f"mov.b32 %r1, {word * size}3;\nret;\n}}\n"


def nested_initial_values(size: int) -> str:
    return f"{_PTX}.global .b32 g{'[1]' * size} = {'{' * size}1{'}' * size};\n{_ENTRY}ret;\n}}\n"


def local_arrays(size: int) -> str:
    text = "".join(f".local .b8 x{i}[400000];\n" for i in range(size)) + "mov.u64 %d1, x0;\nst.local.b32 [%d1], %r1;\n"
    return _PTX + _ENTRY.replace("32,1,1", "1024,1,1") + text + "ret;\n}\n"


def chain_of_calls(size: int) -> str:
    chain = "".join(f".func f{i}() {{ call f{i - 1},(); ret; }}\n" for i in range(1, size))
    return f"{_PTX}.func f0() {{ ret; }}\n{chain}{_ENTRY}call f{size - 1},();\nret;\n}}\n"


def call_tree(size: int) -> str:
    chain = "".join(f".func f{i}() {{ call f{i - 1},(); call f{i - 1},(); ret; }}\n" for i in range(1, size))
    return f"{_PTX}.func f0() {{ ret; }}\n{chain}{_ENTRY}call f{size - 1},();\nret;\n}}\n"


def indirect_calls(size: int) -> str:
    """A call by address is a comparison with every function."""
    body = "{ .reg .b64 %a; mov.b64 %a, f0; call %a, (), p; p: .callprototype _ (); ret; }"
    functions = "".join(f".func f{i}() {body}\n" for i in range(size))
    return f"{_PTX}{functions}{_ENTRY}mov.b64 %d1, f0;\ncall %d1, (), p;\np: .callprototype _ ();\nret;\n}}\n"


def ptx_lines(template: str, head: str = "") -> Callable[[int], str]:
    def make(size: int) -> str:
        return _PTX + _ENTRY + head + "".join(template.format(i=i, j=i + 1) + "\n" for i in range(size)) + "ret;\n}\n"

    return make


def labels(size: int) -> str:
    """Each branch goes to the end, from nest to nest."""
    branches = "".join(f"@%p1 bra L{size - 1 - i};\n" for i in range(size))
    return _PTX + _ENTRY + branches + "".join(f"L{i}:\nmov.b32 %r1, {i};\n" for i in range(size)) + "ret;\n}\n"


def backward_labels(size: int) -> str:
    body = "".join(f"L{i}:\nadd.u32 %r1, %r1, 1;\n" for i in range(size)) + "".join(f"@%p1 bra L{i};\n" for i in range(size))
    return _PTX + _ENTRY + body + "ret;\n}\n"


def branch_table(size: int) -> str:
    labels = ", ".join(f"L{i}" for i in range(size))
    body = f"t: .branchtargets {labels};\nmov.b32 %r1, 0;\nbrx.idx %r1, t;\n" * 20
    return _PTX + _ENTRY + body.replace("t:", "t:", 1) + "".join(f"L{i}:\n" for i in range(size)) + "ret;\n}\n"


def shared_arrays(size: int) -> str:
    return _PTX + "".join(f".shared .b8 s{i}[1000000000];\n" for i in range(size)) + _ENTRY + "ret;\n}\n"


def global_arrays(size: int) -> str:
    return _PTX + "".join(f".global .b8 g{i}[1000000000000];\n" for i in range(size)) + _ENTRY + "ret;\n}\n"


def array_of(text: str) -> Callable[[int], str]:
    def make(size: int) -> str:
        return _PTX + text.replace("{n}", "9" * min(size, 18)) + _ENTRY + "ret;\n}\n"

    return make


def initial_values(size: int) -> str:
    return f"{_PTX}.global .b32 g[{size}] = {{{', '.join(['1'] * size)}}};\n{_ENTRY}ret;\n}}\n"


def registers(size: int) -> str:
    return _PTX + _ENTRY + f".reg .b64 %x<{10 ** min(size, 12)}>;\nmov.b64 %x0, 1;\nret;\n}}\n"


def scopes(size: int) -> str:
    depth = min(size, 400)
    return (
        _PTX + _ENTRY + ("{ .reg .b32 %x;\n" * depth + "mov.b32 %r1, 1;\n" + "}\n" * depth) * max(1, size // depth) + "ret;\n}\n"
    )


def nested_brackets(size: int) -> str:
    return _PTX + _ENTRY + f"mov.b32 %r1, {'(' * size}1{')' * size};\nret;\n}}\n"


def nested_vectors(size: int) -> str:
    return _PTX + _ENTRY + f"mov.b64 %d1, {'{' * size}%r1, %r2{'}' * size};\nret;\n}}\n"


def big_shift(size: int) -> str:
    return _PTX + _ENTRY + f"mov.b32 %r1, {' << '.join(['1'] + ['63'] * max(1, size))};\nret;\n}}\n"


def endless(size: int) -> str:
    return _PTX + _ENTRY + "L:\n" + "add.u32 %r1, %r1, 1;\n" * size + "bra L;\n}\n"


def kernel_entries(size: int) -> str:
    return _PTX + "".join(f".visible .entry k{i}() {{ ret; }}\n" for i in range(size))
