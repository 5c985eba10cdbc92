"""Kernels whose source grows in one respect: each function takes a size and says the same thing that many times, or that deep."""

from collections.abc import Callable

_HEAD = "kernel k(a: tensor[f32, M, K], b: tensor[f32, M, K], n: i32):\n    grid(1)\n"
_TILES = (
    _HEAD
    + "    ring = InputTilePipeline(TilePayload(x=tile[f32, 32, 32]), stages=2)\n"
    + "    role load(warps=1) produces ring:\n        with ring.produce() as s:\n            tma.load(s.x, a[0, 0])\n"
    + "    role compute(warps=1) consumes ring:\n        with ring.consume() as s:\n"
)
_SCALARS = _HEAD + "    role r(warps=1):\n"
_DOT = "fn h0(x):\n    return x + x\n"


def _lines(template: str, size: int, indent: int) -> str:
    return "".join(" " * indent + template.format(i=i, j=i + 1) + "\n" for i in range(size))


def _nested(header: str, size: int, indent: int, innermost: str = "pass") -> str:
    lines = [" " * (indent + depth) + header.format(i=depth) for depth in range(size)]
    return "\n".join([*lines, " " * (indent + size) + innermost]) + "\n"


def helpers(size: int) -> str:
    chain = "".join(f"fn h{i}(x):\n    return h{i - 1}(x) + h{i - 1}(x)\n" for i in range(1, size))
    return _DOT + chain + _SCALARS + f"        y = h{size - 1}(n)\n"


def tile_helpers(size: int) -> str:
    chain = "".join(f"fn h{i}(x):\n    y = h{i - 1}(x)\n    return y * y\n" for i in range(1, size))
    return _DOT + chain + _TILES + f"            store(b[0, 0], h{size - 1}(s.x))\n"


def nested_calls(size: int) -> str:
    depth = min(size, 50)
    body = f"            store(b[0, 0], {'h0(' * depth}s.x{')' * depth})\n"
    return _DOT + _TILES + body * max(1, size // 50)


def tiles_doubled(template: str) -> Callable[[int], str]:
    def make(size: int) -> str:
        return _TILES + "            t = s.x\n" + _lines(template, size, 12) + "            store(b[0, 0], t)\n"

    return make


def tiles_named(size: int) -> str:
    text = "            t0 = s.x\n" + _lines("t{j} = t{i} + t{i}", size, 12)
    return _TILES + text + f"            store(b[0, 0], t{size})\n"


def reduced(size: int) -> str:
    text = "            t0 = s.x\n" + _lines("t{j} = t{i} - row_max(t{i})", size, 12)
    return _TILES + text + f"            store(b[0, 0], t{size})\n"


def stores(size: int) -> str:
    return _TILES + _lines("store.direct(b[{i}, 0], s.x)", size, 12)


def scalars_doubled(size: int) -> str:
    text = "        x0 = n\n" + _lines("x{j} = x{i} * x{i}", size, 8)
    return _SCALARS + text + f"        for i in range(x{size}):\n            pass\n"


def scalars_in_loops(size: int) -> str:
    """Bounds of loops with pipeline operations are compared between roles."""
    text = "        x0 = n\n" + _lines("x{j} = x{i} + x{i}", size, 8)
    loop = f"        for i in range(x{size}):\n"
    return (
        _HEAD
        + "    p = ProducerConsumerPipeline(stages=2)\n"
        + "    role load(warps=1) produces p:\n" + text + loop + "            s = p.acquire_producer()\n            s.release()\n"
        + "    role use(warps=1) consumes p:\n" + text + loop + "            with p.consume() as s:\n                pass\n"
    )  # fmt: skip


def scalars_in_cluster(size: int) -> str:
    text = "        x0 = block.x\n" + _lines("x{j} = x{i} * x{i} + cta.x", size, 8)
    return _SCALARS.replace("grid(1)", "grid(2)\n    cluster(2)") + text + f"        if x{size} > 0:\n            x0 = 1\n"


def reassigned_in_loop(size: int) -> str:
    text = "        x0 = n\n        for i in range(n):\n" + _lines("x{i} = x{i} + i\n            x{j} = x{i}", size, 12)
    return _SCALARS + text


def branches(size: int) -> str:
    return _SCALARS + "        x = n\n" + _lines("if x > {i}:\n            x = x + {i}", size, 8)


def elif_chain(size: int) -> str:
    return (
        _SCALARS
        + "        x = n\n        if n == -1:\n            x = 1\n"
        + _lines("elif n == {i}:\n            x = {i}", size, 8)
    )


def nested_ifs(size: int) -> str:
    depth = min(size, 25)
    block = _nested("if n > {i}:", depth, 8)
    return _SCALARS + block * max(1, size // depth)


def nested_loops(size: int) -> str:
    depth = min(size, 25)
    block = _nested("for i{i} in range(n):", depth, 8)
    return _SCALARS + block * max(1, size // depth)


def loops(size: int) -> str:
    return _SCALARS + _lines("for i in range(n):\n            x = i", size, 8)


def unrolled(size: int) -> str:
    text = "        x = registers(fill(0.0, f32, 32, 32))\n"
    loop = "        for i in range(1000000000):\n            y = columns(x, i % 4 * 8, 8)\n"
    return _SCALARS + text + loop * size


def unrolled_nested(size: int) -> str:
    """A loop is looked at first as it stands, then once per value: again in each of the loops around it."""
    depth = min(size, 20)
    text = "        x = registers(fill(0.0, f32, 32, 32))\n"
    total = " + ".join(f"i{i}" for i in range(depth))
    loops = _nested("for i{i} in range(2):", depth, 8, f"y = columns(x, ({total}) % 4 * 8, 8)")
    return _SCALARS + text + loops * max(1, size // depth)


def pipelines(size: int) -> str:
    text = _lines("p{i} = ProducerConsumerPipeline(stages=2)", size, 4)
    produces = ", ".join(f"p{i}" for i in range(size))
    fill = _lines("with p{i}.produce() as s:\n            pass", size, 8)
    use = _lines("with p{i}.consume() as s:\n            pass", size, 8)
    return f"{_HEAD}{text}    role a(warps=1) produces {produces}:\n{fill}    role b(warps=1) consumes {produces}:\n{use}"


def stages(size: int) -> str:
    """One pipeline, whose stages are obtained in a row."""
    text = f"    p = ProducerConsumerPipeline(stages={max(1, size)})\n"
    fill = _lines("with p.produce() as s:\n            pass", size, 8)
    use = _lines("with p.consume() as s:\n            pass", size, 8)
    return f"{_HEAD}{text}    role a(warps=1) produces p:\n{fill}    role b(warps=1) consumes p:\n{use}"


def branching_pipeline(size: int) -> str:
    """Every branch doubles the ways through the roles."""
    text = "    p = ProducerConsumerPipeline(stages=2)\n"
    fill = _lines("if n > {i}:\n            with p.produce() as s:\n                pass", size, 8)
    use = _lines("if n > {i}:\n            with p.consume() as s:\n                pass", size, 8)
    return f"{_HEAD}{text}    role a(warps=1) produces p:\n{fill}    role b(warps=1) consumes p:\n{use}"


def different_loops(size: int) -> str:
    """No two loops of the roles fit together, so that sizes are tried."""
    scalars = ", ".join(f"c{i}: i32" for i in range(size))
    text = f"kernel k({scalars}, x: tensor[f32, M, N]):\n    grid(1)\n    p = ProducerConsumerPipeline(stages=32)\n"
    fill = _lines("for i in range(c{i}):\n            p.producer_signal_and_step()", size, 8)
    use = _lines("for i in range(1, c{i} + 1):\n            p.consumer_signal_and_step()", size, 8)
    return f"{text}    role a(warps=1) produces p:\n{fill}    role b(warps=1) consumes p:\n{use}"


def nested_different_loops(size: int) -> str:
    depth = min(size, 12)
    scalars = ", ".join(f"c{i}: i32" for i in range(depth))
    text = f"kernel k({scalars}, x: tensor[f32, M, N]):\n    grid(1)\n    p = ProducerConsumerPipeline(stages=4)\n"
    fill = _nested("for k{i} in range(c{i}):", depth, 8, "p.producer_signal_and_step()")
    headers = [" " * (8 + i) + f"for k{i} in range(c{depth - 1 - i}):" for i in range(depth)]
    use = "\n".join([*headers, " " * (8 + depth) + "p.consumer_signal_and_step()"]) + "\n"
    times = max(1, size // depth)
    return f"{text}    role a(warps=1) produces p:\n{fill * times}    role b(warps=1) consumes p:\n{use * times}"


def roles(size: int) -> str:
    return _HEAD + _lines("role r{i}(warps=1):\n        x = n", size, 4)


def kernels(size: int) -> str:
    return "".join((_HEAD + "    role r(warps=1):\n        x = n\n").replace("kernel k(", f"kernel k{i}(") for i in range(size))


def kernels_of_helpers(size: int) -> str:
    """Each kernel stays within its own budget."""
    chain = _DOT + "".join(f"fn h{i}(x):\n    return h{i - 1}(x) + h{i - 1}(x)\n" for i in range(1, 10))
    kernels = (f"kernel k{i}(n: i32):\n    grid(1)\n    role r(warps=1):\n        x = h9(n)\n" for i in range(size))
    return chain + "".join(kernels)


def parameters(size: int) -> str:
    scalars = ", ".join(f"s{i}: i32" for i in range(size))
    return f"kernel k(a: tensor[f32, M, K], {scalars}):\n    grid(1)\n    role r(warps=1):\n        x = s0\n"


def constants(size: int) -> str:
    return "comptime c0 = 1\n" + _lines("comptime c{j} = c{i} * 1000000", size, 0) + _SCALARS + "        x = 1\n"


def powers(size: int) -> str:
    return "comptime c0 = 3\n" + _lines("comptime c{j} = c{i} * c{i}", size, 0) + _SCALARS + "        x = 1\n"


def texts(size: int) -> str:
    return 'comptime c0 = "ab"\n' + _lines("comptime c{j} = c{i} + c{i}", size, 0) + _SCALARS + "        x = 1\n"


def sum(size: int) -> str:
    lines = _lines("x = " + " + ".join(["n"] * 400), size, 8)
    return _SCALARS + lines


def conditions(size: int) -> str:
    return _SCALARS + _lines("x = " + " and ".join(["n > 0"] * 100), size, 8)


def conditionals(size: int) -> str:
    return _SCALARS + _lines("x = " + " if n > 0 else ".join(["1"] * 100), size, 8)


def brackets(size: int) -> str:
    return _SCALARS + _lines("x = " + "(" * 50 + "n" + ")" * 50, size, 8)


def open_brackets(size: int) -> str:
    return _SCALARS + "        x = " + "(" * size


def long_name(size: int) -> str:
    name = "x" * max(1, size)
    return _SCALARS + f"        {name} = n\n        {name} = {name} + 1\n"


def number(size: int) -> str:
    return _SCALARS + f"        x = {'9' * max(1, size)}\n"


def names_alike(size: int) -> str:
    """An unknown name is compared with all known ones."""
    return _SCALARS + _lines("value{i} = n", size, 8) + _lines("y{i} = valeu{i}", size // 2, 8)


def mistakes(size: int) -> str:
    return _SCALARS + _lines("x{i} = unknown{i}", size, 8)


def comments(size: int) -> str:
    return "# comment\n" * size + _SCALARS + "        x = n\n"


def text_lines(size: int) -> str:
    return '"""' + "word\n" * size + '"""\n' + _SCALARS + "        x = n\n"


def tensor_slices(size: int) -> str:
    return _SCALARS + _lines("y{i} = load(a[{i} + n * n, n])", size, 8)


def semaphores(size: int) -> str:
    return _SCALARS + "        x = 0\n" + _lines("x = select(x > {i}, x + 1, x - 1)", size, 8)


def wide_tiles(size: int) -> str:
    """One line asks for a store of many elements by one warp."""
    text = _HEAD + "    role r(warps=1):\n"
    return text + _lines("store.direct(b[{i}, 0], fill(1.0, f32, 1024, 1024) * fill(2.0, f32, 1024, 1024))", size, 8)


def kept_tiles(size: int) -> str:
    return _SCALARS + "        x = registers(fill(0.0, f32, 32, 32))\n" + _lines("x = x * x + x", size, 8)


def kept_names(size: int) -> str:
    text = "        x0 = registers(fill(0.0, f32, 32, 8))\n" + _lines("x{j} = registers(x{i} + 1.0)", size, 8)
    return _SCALARS + text + f"        store.direct(b[0, 0], x{size})\n"


def columns(size: int) -> str:
    text = "            for i in range(256):\n              for j in range(256):\n"
    return _TILES + text + _lines("store.direct(b[{i}, 0], columns(s.x, (i + j) % 4 * 8, 8))", size, 16)


def withs(size: int) -> str:
    text = "    p = ProducerConsumerPipeline(stages=32)\n    role a(warps=1) produces p:\n"
    depth = min(size, 20)
    return _HEAD + text + _nested("with p.produce() as s{i}:", depth, 8) * max(1, size // depth)


def continued(word: str, last: str) -> Callable[[int], str]:
    """One expression over many lines, each of them short."""
    return lambda size: _SCALARS + "        x = " + f"{word} \\\n" * size + last + "\n"


def values_and_branches(size: int) -> str:
    """Every branch changes one of the values that all branches behind it may read."""
    count = max(1, size // 3)
    text = _lines("x{i} = n", count, 8)
    return _SCALARS + text + "".join(
        f"        if n > {i}:\n            x{i % count} = x{i * 7 % count} + 1\n" for i in range(size)
    )  # fmt: skip


def values_and_loops(size: int) -> str:
    text = _lines("x{i} = n", size, 8)
    loops = _nested("for i{i} in range(n):", 25, 8)
    changed = "".join(f"{' ' * 33}x{i} = x{i * 7 % size} + i{i % 25}\n" for i in range(size))
    return _SCALARS + text + loops.removesuffix(f"{' ' * 33}pass\n") + changed


def chain_of_roles(size: int) -> str:
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


def crossed_pipelines(size: int) -> str:
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


def reference(template: str, join: str = "") -> Callable[[int], str]:
    return lambda size: _documented(f"numpy: b = {template}{join * size}", "shapes: M=32, N=32")


def reference_lines(size: int) -> str:
    lines = [f"numpy: c{i} = {'c' + str(i - 1) if i else 'a'} @ a" for i in range(size)]
    return _documented(*lines, "numpy: b = a", "shapes: M=1024, N=1024")
