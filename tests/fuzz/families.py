"""Programs that grow in one respect: each family takes a size and says the same thing that many times, or that deep.

What a pass does with size n and with 2n shows whether its work grows out of proportion. `largest` is the size at which the text has
about 100 KB. Names say what grows.
"""

from collections.abc import Callable
from dataclasses import dataclass

LARGEST_TEXT = 100_000  # bytes

_HEAD = "kernel k(a: tensor[f32, M, K], b: tensor[f32, M, K], n: i32):\n    grid(1)\n"
_TILES = (
    _HEAD
    + "    ring = InputTilePipeline(TilePayload(x=tile[f32, 32, 32]), stages=2)\n"
    + "    role load(warps=1) produces ring:\n        with ring.produce() as s:\n            tma.load(s.x, a[0, 0])\n"
    + "    role compute(warps=1) consumes ring:\n        with ring.consume() as s:\n"
)
_SCALARS = _HEAD + "    role r(warps=1):\n"
_DOT = "fn h0(x):\n    return x + x\n"
_PTX = ".version 8.7\n.target sm_100a\n.address_size 64\n"
_ENTRY = ".visible .entry k() .reqntid 32,1,1\n{\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n.reg .pred %p<4>;\n"


@dataclass(frozen=True)
class Family:
    """`make` gives a program of size n; `command` are the words in front of its file, `after` those behind it."""

    name: str
    make: Callable[[int], str]
    command: tuple[str, ...] = ("compile",)
    after: tuple[str, ...] = ("--allow-undecided",)
    suffix: str = ".pipe"

    def largest(self, limit: int = LARGEST_TEXT) -> int:
        """The size at which the text comes nearest to `limit` bytes."""
        size = 1
        while len(self.make(2 * size)) <= limit and size < 1 << 20:
            size *= 2
        step = size // 2
        while step:
            if len(self.make(size + step)) <= limit:
                size += step
            step //= 2
        return size


def _lines(template: str, size: int, indent: int) -> str:
    return "".join(" " * indent + template.format(i=i, j=i + 1) + "\n" for i in range(size))


def _nested(header: str, size: int, indent: int, innermost: str = "pass") -> str:
    lines = [" " * (indent + depth) + header.format(i=depth) for depth in range(size)]
    return "\n".join([*lines, " " * (indent + size) + innermost]) + "\n"


def _helpers(size: int) -> str:
    chain = "".join(f"fn h{i}(x):\n    return h{i - 1}(x) + h{i - 1}(x)\n" for i in range(1, size))
    return _DOT + chain + _SCALARS + f"        y = h{size - 1}(n)\n"


def _tile_helpers(size: int) -> str:
    chain = "".join(f"fn h{i}(x):\n    y = h{i - 1}(x)\n    return y * y\n" for i in range(1, size))
    return _DOT + chain + _TILES + f"            store(b[0, 0], h{size - 1}(s.x))\n"


def _nested_calls(size: int) -> str:
    depth = min(size, 50)
    body = f"            store(b[0, 0], {'h0(' * depth}s.x{')' * depth})\n"
    return _DOT + _TILES + body * max(1, size // 50)


def _tiles_doubled(template: str) -> Callable[[int], str]:
    def make(size: int) -> str:
        return _TILES + "            t = s.x\n" + _lines(template, size, 12) + "            store(b[0, 0], t)\n"

    return make


def _tiles_named(size: int) -> str:
    text = "            t0 = s.x\n" + _lines("t{j} = t{i} + t{i}", size, 12)
    return _TILES + text + f"            store(b[0, 0], t{size})\n"


def _reduced(size: int) -> str:
    text = "            t0 = s.x\n" + _lines("t{j} = t{i} - row_max(t{i})", size, 12)
    return _TILES + text + f"            store(b[0, 0], t{size})\n"


def _stores(size: int) -> str:
    return _TILES + _lines("store.direct(b[{i}, 0], s.x)", size, 12)


def _scalars_doubled(size: int) -> str:
    text = "        x0 = n\n" + _lines("x{j} = x{i} * x{i}", size, 8)
    return _SCALARS + text + f"        for i in range(x{size}):\n            pass\n"


def _scalars_in_loops(size: int) -> str:
    """Bounds of loops with pipeline operations are compared between roles."""
    text = "        x0 = n\n" + _lines("x{j} = x{i} + x{i}", size, 8)
    loop = f"        for i in range(x{size}):\n"
    return (
        _HEAD
        + "    p = ProducerConsumerPipeline(stages=2)\n"
        + "    role load(warps=1) produces p:\n" + text + loop + "            s = p.acquire_producer()\n            s.release()\n"
        + "    role use(warps=1) consumes p:\n" + text + loop + "            with p.consume() as s:\n                pass\n"
    )  # fmt: skip


def _scalars_in_cluster(size: int) -> str:
    text = "        x0 = block.x\n" + _lines("x{j} = x{i} * x{i} + cta.x", size, 8)
    return _SCALARS.replace("grid(1)", "grid(2)\n    cluster(2)") + text + f"        if x{size} > 0:\n            x0 = 1\n"


def _reassigned_in_loop(size: int) -> str:
    text = "        x0 = n\n        for i in range(n):\n" + _lines("x{i} = x{i} + i\n            x{j} = x{i}", size, 12)
    return _SCALARS + text


def _branches(size: int) -> str:
    return _SCALARS + "        x = n\n" + _lines("if x > {i}:\n            x = x + {i}", size, 8)


def _elif(size: int) -> str:
    return (
        _SCALARS
        + "        x = n\n        if n == -1:\n            x = 1\n"
        + _lines("elif n == {i}:\n            x = {i}", size, 8)
    )


def _nested_ifs(size: int) -> str:
    depth = min(size, 25)
    block = _nested("if n > {i}:", depth, 8)
    return _SCALARS + block * max(1, size // depth)


def _nested_loops(size: int) -> str:
    depth = min(size, 25)
    block = _nested("for i{i} in range(n):", depth, 8)
    return _SCALARS + block * max(1, size // depth)


def _loops(size: int) -> str:
    return _SCALARS + _lines("for i in range(n):\n            x = i", size, 8)


def _unrolled(size: int) -> str:
    text = "        x = registers(fill(0.0, f32, 32, 32))\n"
    loop = "        for i in range(1000000000):\n            y = columns(x, i % 4 * 8, 8)\n"
    return _SCALARS + text + loop * size


def _unrolled_nested(size: int) -> str:
    """A loop is looked at first as it stands, then once per value: again in each of the loops around it."""
    depth = min(size, 20)
    text = "        x = registers(fill(0.0, f32, 32, 32))\n"
    total = " + ".join(f"i{i}" for i in range(depth))
    loops = _nested("for i{i} in range(2):", depth, 8, f"y = columns(x, ({total}) % 4 * 8, 8)")
    return _SCALARS + text + loops * max(1, size // depth)


def _pipelines(size: int) -> str:
    text = _lines("p{i} = ProducerConsumerPipeline(stages=2)", size, 4)
    produces = ", ".join(f"p{i}" for i in range(size))
    fill = _lines("with p{i}.produce() as s:\n            pass", size, 8)
    use = _lines("with p{i}.consume() as s:\n            pass", size, 8)
    return f"{_HEAD}{text}    role a(warps=1) produces {produces}:\n{fill}    role b(warps=1) consumes {produces}:\n{use}"


def _stages(size: int) -> str:
    """One pipeline, whose stages are obtained in a row."""
    text = f"    p = ProducerConsumerPipeline(stages={max(1, size)})\n"
    fill = _lines("with p.produce() as s:\n            pass", size, 8)
    use = _lines("with p.consume() as s:\n            pass", size, 8)
    return f"{_HEAD}{text}    role a(warps=1) produces p:\n{fill}    role b(warps=1) consumes p:\n{use}"


def _branching_pipeline(size: int) -> str:
    """Every branch doubles the ways through the roles."""
    text = "    p = ProducerConsumerPipeline(stages=2)\n"
    fill = _lines("if n > {i}:\n            with p.produce() as s:\n                pass", size, 8)
    use = _lines("if n > {i}:\n            with p.consume() as s:\n                pass", size, 8)
    return f"{_HEAD}{text}    role a(warps=1) produces p:\n{fill}    role b(warps=1) consumes p:\n{use}"


def _different_loops(size: int) -> str:
    """No two loops of the roles fit together, so that sizes are tried."""
    scalars = ", ".join(f"c{i}: i32" for i in range(size))
    text = f"kernel k({scalars}, x: tensor[f32, M, N]):\n    grid(1)\n    p = ProducerConsumerPipeline(stages=32)\n"
    fill = _lines("for i in range(c{i}):\n            p.producer_signal_and_step()", size, 8)
    use = _lines("for i in range(1, c{i} + 1):\n            p.consumer_signal_and_step()", size, 8)
    return f"{text}    role a(warps=1) produces p:\n{fill}    role b(warps=1) consumes p:\n{use}"


def _nested_different_loops(size: int) -> str:
    depth = min(size, 12)
    scalars = ", ".join(f"c{i}: i32" for i in range(depth))
    text = f"kernel k({scalars}, x: tensor[f32, M, N]):\n    grid(1)\n    p = ProducerConsumerPipeline(stages=4)\n"
    fill = _nested("for k{i} in range(c{i}):", depth, 8, "p.producer_signal_and_step()")
    headers = [" " * (8 + i) + f"for k{i} in range(c{depth - 1 - i}):" for i in range(depth)]
    use = "\n".join([*headers, " " * (8 + depth) + "p.consumer_signal_and_step()"]) + "\n"
    times = max(1, size // depth)
    return f"{text}    role a(warps=1) produces p:\n{fill * times}    role b(warps=1) consumes p:\n{use * times}"


def _roles(size: int) -> str:
    return _HEAD + _lines("role r{i}(warps=1):\n        x = n", size, 4)


def _kernels(size: int) -> str:
    return "".join((_HEAD + "    role r(warps=1):\n        x = n\n").replace("kernel k(", f"kernel k{i}(") for i in range(size))


def _kernels_of_helpers(size: int) -> str:
    """Each kernel stays within its own budget."""
    chain = _DOT + "".join(f"fn h{i}(x):\n    return h{i - 1}(x) + h{i - 1}(x)\n" for i in range(1, 10))
    kernels = (f"kernel k{i}(n: i32):\n    grid(1)\n    role r(warps=1):\n        x = h9(n)\n" for i in range(size))
    return chain + "".join(kernels)


def _parameters(size: int) -> str:
    scalars = ", ".join(f"s{i}: i32" for i in range(size))
    return f"kernel k(a: tensor[f32, M, K], {scalars}):\n    grid(1)\n    role r(warps=1):\n        x = s0\n"


def _constants(size: int) -> str:
    return "comptime c0 = 1\n" + _lines("comptime c{j} = c{i} * 1000000", size, 0) + _SCALARS + "        x = 1\n"


def _powers(size: int) -> str:
    return "comptime c0 = 3\n" + _lines("comptime c{j} = c{i} * c{i}", size, 0) + _SCALARS + "        x = 1\n"


def _texts(size: int) -> str:
    return 'comptime c0 = "ab"\n' + _lines("comptime c{j} = c{i} + c{i}", size, 0) + _SCALARS + "        x = 1\n"


def _sum(size: int) -> str:
    lines = _lines("x = " + " + ".join(["n"] * 400), size, 8)
    return _SCALARS + lines


def _conditions(size: int) -> str:
    return _SCALARS + _lines("x = " + " and ".join(["n > 0"] * 100), size, 8)


def _conditionals(size: int) -> str:
    return _SCALARS + _lines("x = " + " if n > 0 else ".join(["1"] * 100), size, 8)


def _brackets(size: int) -> str:
    return _SCALARS + _lines("x = " + "(" * 50 + "n" + ")" * 50, size, 8)


def _open_brackets(size: int) -> str:
    return _SCALARS + "        x = " + "(" * size


def _long_name(size: int) -> str:
    name = "x" * max(1, size)
    return _SCALARS + f"        {name} = n\n        {name} = {name} + 1\n"


def _number(size: int) -> str:
    return _SCALARS + f"        x = {'9' * max(1, size)}\n"


def _names_alike(size: int) -> str:
    """An unknown name is compared with all known ones."""
    return _SCALARS + _lines("value{i} = n", size, 8) + _lines("y{i} = valeu{i}", size // 2, 8)


def _mistakes(size: int) -> str:
    return _SCALARS + _lines("x{i} = unknown{i}", size, 8)


def _comments(size: int) -> str:
    return "# comment\n" * size + _SCALARS + "        x = n\n"


def _text_lines(size: int) -> str:
    return '"""' + "word\n" * size + '"""\n' + _SCALARS + "        x = n\n"


def _tensor_slices(size: int) -> str:
    return _SCALARS + _lines("y{i} = load(a[{i} + n * n, n])", size, 8)


def _semaphores(size: int) -> str:
    return _SCALARS + "        x = 0\n" + _lines("x = select(x > {i}, x + 1, x - 1)", size, 8)


def _wide_tiles(size: int) -> str:
    """One line asks for a store of many elements by one warp."""
    text = _HEAD + "    role r(warps=1):\n"
    return text + _lines("store.direct(b[{i}, 0], fill(1.0, f32, 1024, 1024) * fill(2.0, f32, 1024, 1024))", size, 8)


def _kept_tiles(size: int) -> str:
    return _SCALARS + "        x = registers(fill(0.0, f32, 32, 32))\n" + _lines("x = x * x + x", size, 8)


def _kept_names(size: int) -> str:
    text = "        x0 = registers(fill(0.0, f32, 32, 8))\n" + _lines("x{j} = registers(x{i} + 1.0)", size, 8)
    return _SCALARS + text + f"        store.direct(b[0, 0], x{size})\n"


def _columns(size: int) -> str:
    text = "            for i in range(256):\n              for j in range(256):\n"
    return _TILES + text + _lines("store.direct(b[{i}, 0], columns(s.x, (i + j) % 4 * 8, 8))", size, 16)


def _withs(size: int) -> str:
    text = "    p = ProducerConsumerPipeline(stages=32)\n    role a(warps=1) produces p:\n"
    depth = min(size, 20)
    return _HEAD + text + _nested("with p.produce() as s{i}:", depth, 8) * max(1, size // depth)


def _continued(word: str, last: str) -> Callable[[int], str]:
    """One expression over many lines, each of them short."""
    return lambda size: _SCALARS + "        x = " + f"{word} \\\n" * size + last + "\n"


def _values_and_branches(size: int) -> str:
    """Every branch changes one of the values that all branches behind it may read."""
    count = max(1, size // 3)
    text = _lines("x{i} = n", count, 8)
    return _SCALARS + text + "".join(
        f"        if n > {i}:\n            x{i % count} = x{i * 7 % count} + 1\n" for i in range(size)
    )  # fmt: skip


def _values_and_loops(size: int) -> str:
    text = _lines("x{i} = n", size, 8)
    loops = _nested("for i{i} in range(n):", 25, 8)
    changed = "".join(f"{' ' * 33}x{i} = x{i * 7 % size} + i{i % 25}\n" for i in range(size))
    return _SCALARS + text + loops.removesuffix(f"{' ' * 33}pass\n") + changed


def _chain_of_roles(size: int) -> str:
    """Each role takes from the one before and hands on to the next."""
    rings = _lines("p{i} = ProducerConsumerPipeline(stages=2)", size, 4)
    roles = "    role r0(warps=1) produces p0:\n        for i in range(n):\n            with p0.produce() as s:\n                pass\n"
    for at in range(1, size):
        roles += f"    role r{at}(warps=1) produces p{at} consumes p{at - 1}:\n        for i in range(n):\n"
        roles += (
            f"            with p{at - 1}.consume() as c:\n                with p{at}.produce() as s:\n                    pass\n"
        )
    last = f"    role last(warps=1) consumes p{size - 1}:\n        for i in range(n):\n            with p{size - 1}.consume() as s:\n"
    return _HEAD + rings + roles + last + "                pass\n"


def _crossed_pipelines(size: int) -> str:
    """Two roles go through the same pipelines in two orders, so that the first round decides."""
    count = 3 * (size // 3) + 1  # has no factor in common with 3
    names = ", ".join(f"p{i}" for i in range(count))
    sides = [
        f"    role {role}(warps=1) {word}s {names}:\n        for i in range(n):\n"
        + "".join(f"            with p{i * step % count}.{word}() as s{i}:\n                pass\n" for i in range(count))
        for role, word, step in (("a", "produce", 1), ("b", "consume", 3))
    ]
    return _HEAD + _lines("p{i} = ProducerConsumerPipeline(stages=3)", count, 4) + "".join(sides)


def _documented(*lines: str) -> str:
    text = "".join(f"    {line}\n" for line in lines)
    return (
        f'kernel k(a: tensor[f32, M, N], b: tensor[f32, M, N]):\n    """Copies.\n\n{text}    """\n    grid(1)\n    role r(warps=1):\n'
        "        store.direct(b[0, 0], load(a[0, 0], 32, 32))\n"
    )


def _reference(template: str, join: str = "") -> Callable[[int], str]:
    return lambda size: _documented(f"numpy: b = {template}{join * size}", "shapes: M=32, N=32")


def _reference_lines(size: int) -> str:
    lines = [f"numpy: c{i} = {'c' + str(i - 1) if i else 'a'} @ a" for i in range(size)]
    return _documented(*lines, "numpy: b = a", "shapes: M=1024, N=1024")


# ------------------------------------------------------------------------------------------------------------------------ PTX


def _printf(width: str) -> Callable[[int], str]:
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


def _prefixed(word: str) -> Callable[[int], str]:
    return lambda size: _PTX + _ENTRY + f"mov.b32 %r1, {word * size}3;\nret;\n}}\n"


def _nested_initial_values(size: int) -> str:
    return f"{_PTX}.global .b32 g{'[1]' * size} = {'{' * size}1{'}' * size};\n{_ENTRY}ret;\n}}\n"


def _local_arrays(size: int) -> str:
    text = "".join(f".local .b8 x{i}[400000];\n" for i in range(size)) + "mov.u64 %d1, x0;\nst.local.b32 [%d1], %r1;\n"
    return _PTX + _ENTRY.replace("32,1,1", "1024,1,1") + text + "ret;\n}\n"


def _chain_of_calls(size: int) -> str:
    chain = "".join(f".func f{i}() {{ call f{i - 1},(); ret; }}\n" for i in range(1, size))
    return f"{_PTX}.func f0() {{ ret; }}\n{chain}{_ENTRY}call f{size - 1},();\nret;\n}}\n"


def _call_tree(size: int) -> str:
    chain = "".join(f".func f{i}() {{ call f{i - 1},(); call f{i - 1},(); ret; }}\n" for i in range(1, size))
    return f"{_PTX}.func f0() {{ ret; }}\n{chain}{_ENTRY}call f{size - 1},();\nret;\n}}\n"


def _indirect_calls(size: int) -> str:
    """A call by address is a comparison with every function."""
    body = "{ .reg .b64 %a; mov.b64 %a, f0; call %a, (), p; p: .callprototype _ (); ret; }"
    functions = "".join(f".func f{i}() {body}\n" for i in range(size))
    return f"{_PTX}{functions}{_ENTRY}mov.b64 %d1, f0;\ncall %d1, (), p;\np: .callprototype _ ();\nret;\n}}\n"


def _ptx_lines(template: str, head: str = "") -> Callable[[int], str]:
    def make(size: int) -> str:
        return _PTX + _ENTRY + head + _lines(template, size, 0) + "ret;\n}\n"

    return make


def _labels(size: int) -> str:
    """Each branch goes to the end, from nest to nest."""
    branches = "".join(f"@%p1 bra L{size - 1 - i};\n" for i in range(size))
    return _PTX + _ENTRY + branches + "".join(f"L{i}:\nmov.b32 %r1, {i};\n" for i in range(size)) + "ret;\n}\n"


def _backward_labels(size: int) -> str:
    body = "".join(f"L{i}:\nadd.u32 %r1, %r1, 1;\n" for i in range(size)) + "".join(f"@%p1 bra L{i};\n" for i in range(size))
    return _PTX + _ENTRY + body + "ret;\n}\n"


def _branch_table(size: int) -> str:
    labels = ", ".join(f"L{i}" for i in range(size))
    body = f"t: .branchtargets {labels};\nmov.b32 %r1, 0;\nbrx.idx %r1, t;\n" * 20
    return _PTX + _ENTRY + body.replace("t:", "t:", 1) + "".join(f"L{i}:\n" for i in range(size)) + "ret;\n}\n"


def _shared_arrays(size: int) -> str:
    return _PTX + "".join(f".shared .b8 s{i}[1000000000];\n" for i in range(size)) + _ENTRY + "ret;\n}\n"


def _global_arrays(size: int) -> str:
    return _PTX + "".join(f".global .b8 g{i}[1000000000000];\n" for i in range(size)) + _ENTRY + "ret;\n}\n"


def _array_of(text: str) -> Callable[[int], str]:
    def make(size: int) -> str:
        return _PTX + text.replace("{n}", "9" * min(size, 18)) + _ENTRY + "ret;\n}\n"

    return make


def _initial_values(size: int) -> str:
    return f"{_PTX}.global .b32 g[{size}] = {{{', '.join(['1'] * size)}}};\n{_ENTRY}ret;\n}}\n"


def _registers(size: int) -> str:
    return _PTX + _ENTRY + f".reg .b64 %x<{10 ** min(size, 12)}>;\nmov.b64 %x0, 1;\nret;\n}}\n"


def _scopes(size: int) -> str:
    depth = min(size, 400)
    return (
        _PTX + _ENTRY + ("{ .reg .b32 %x;\n" * depth + "mov.b32 %r1, 1;\n" + "}\n" * depth) * max(1, size // depth) + "ret;\n}\n"
    )


def _nested_brackets(size: int) -> str:
    return _PTX + _ENTRY + f"mov.b32 %r1, {'(' * size}1{')' * size};\nret;\n}}\n"


def _nested_vectors(size: int) -> str:
    return _PTX + _ENTRY + f"mov.b64 %d1, {'{' * size}%r1, %r2{'}' * size};\nret;\n}}\n"


def _big_shift(size: int) -> str:
    return _PTX + _ENTRY + f"mov.b32 %r1, {' << '.join(['1'] + ['63'] * max(1, size))};\nret;\n}}\n"


def _endless(size: int) -> str:
    return _PTX + _ENTRY + "L:\n" + "add.u32 %r1, %r1, 1;\n" * size + "bra L;\n}\n"


def _kernel_entries(size: int) -> str:
    return _PTX + "".join(f".visible .entry k{i}() {{ ret; }}\n" for i in range(size))


_CHECK = ("check",)
_SIM = ("sim",)
_RUN, _ON_SIM = ("run",), ("--device", "sim")


def _sim(name: str, make: Callable[[int], str], *after: str) -> Family:
    return Family(name, make, _SIM, after or ("--grid", "1"), ".ptx")


FAMILIES = (
    Family("helpers", _helpers), Family("helpers of tiles", _tile_helpers), Family("nested calls", _nested_calls),
    Family("tiles doubled", _tiles_doubled("t = t + t")), Family("tiles tripled", _tiles_doubled("t = t * t + t")),
    Family("tiles selected", _tiles_doubled("t = select(t > 0.0, t, t - 1.0)")),
    Family("tiles named", _tiles_named), Family("tiles reduced", _reduced), Family("stores", _stores),
    Family("scalars doubled", _scalars_doubled), Family("scalars in loops", _scalars_in_loops),
    Family("scalars in a cluster", _scalars_in_cluster), Family("reassigned in a loop", _reassigned_in_loop),
    Family("branches", _branches), Family("elif", _elif), Family("elif as a tree", _elif, ("compile", "--emit", "ast")),
    Family("nested ifs", _nested_ifs), Family("nested loops", _nested_loops), Family("loops", _loops),
    Family("unrolled", _unrolled), Family("unrolled and nested", _unrolled_nested), Family("columns", _columns),
    Family("pipelines", _pipelines), Family("stages", _stages), Family("branching pipeline", _branching_pipeline),
    Family("different loops", _different_loops), Family("nested different loops", _nested_different_loops),
    Family("roles", _roles), Family("kernels", _kernels), Family("kernels of helpers", _kernels_of_helpers),
    Family("parameters", _parameters), Family("constants", _constants), Family("powers", _powers), Family("texts", _texts),
    Family("sums", _sum), Family("conditions", _conditions), Family("conditionals", _conditionals), Family("brackets", _brackets),
    Family("open brackets", _open_brackets), Family("long name", _long_name), Family("number", _number),
    Family("names alike", _names_alike), Family("mistakes", _mistakes), Family("comments", _comments),
    Family("text", _text_lines), Family("slices", _tensor_slices), Family("selects", _semaphores),
    Family("continued sums", _continued("n +", "n")), Family("continued signs", _continued("-", "n")),
    Family("continued choices", _continued("1 if n > 0 else", "n")), Family("continued nots", _continued("not", "n > 0")),
    Family("values and branches", _values_and_branches), Family("values and loops", _values_and_loops),
    Family("chain of roles", _chain_of_roles, _CHECK), Family("crossed pipelines", _crossed_pipelines, _CHECK),
    Family("reference of views", _reference("a", ".T"), _RUN, _ON_SIM),
    Family("reference of products", _reference("a", "@a"), _RUN, _ON_SIM),
    Family("reference lines", _reference_lines, _RUN, _ON_SIM),
    Family("wide tiles", _wide_tiles), Family("kept tiles", _kept_tiles), Family("kept names", _kept_names), Family("withs", _withs),
    _sim("call tree", _call_tree), _sim("indirect calls", _indirect_calls),
    _sim("PTX adds", _ptx_lines("add.u32 %r1, %r1, {i};")), _sim("PTX labels", _labels), _sim("PTX backward labels", _backward_labels),
    _sim("PTX branch table", _branch_table), _sim("PTX constants", _ptx_lines("mov.b64 %d1, {i}00000;")),
    _sim("PTX registers", _ptx_lines(".reg .b64 %x{i};\nmov.b64 %x{i}, 1;")), _sim("PTX register range", _registers),
    _sim("PTX variables", _ptx_lines(".shared .b8 s{i}[1];\nmov.b32 %r1, s{i};")),
    _sim("PTX shared arrays", _shared_arrays), _sim("PTX global arrays", _global_arrays), _sim("PTX initial values", _initial_values),
    _sim("PTX shared size", _array_of(".shared .b8 s[{n}];\n")), _sim("PTX global size", _array_of(".global .b8 s[{n}];\n")),
    _sim("PTX local size", _array_of(".local .b8 s[{n}];\n")), _sim("PTX constant size", _array_of(".const .b8 s[{n}];\n")),
    _sim("PTX dimensions", _array_of(".global .b8 s[1]" + "[{n}]" * 40 + ";\n")),
    _sim("PTX alignment", _array_of(".global .align {n} .b8 s[1];\n")),
    _sim("PTX printf widths", _printf("99999999")), _sim("PTX printf width", _printf(".2000000000")),
    _sim("PTX printf stars", _printf("*")),
    _sim("PTX signs", _prefixed("-")), _sim("PTX nots", _prefixed("!~")), _sim("PTX choices", _prefixed("1 ? 2 : ")),
    _sim("PTX casts", _prefixed("(.s64)")), _sim("PTX nested values", _nested_initial_values), _sim("PTX local arrays", _local_arrays),
    _sim("PTX chain of calls", _chain_of_calls),
    _sim("PTX scopes", _scopes), _sim("PTX brackets", _nested_brackets), _sim("PTX vectors", _nested_vectors),
    _sim("PTX shifts", _big_shift), _sim("PTX endless loop", _endless),
    _sim("PTX entries", _kernel_entries, "--kernel", "k0", "--grid", "1"),
    _sim("PTX grid", _ptx_lines("add.u32 %r1, %r1, {i};"), "--grid", "2147483647"),
)  # fmt: skip
