"""Right kernels as source text, by family: what makes the roles hard to follow for whoever has to show that they fit together.

Each family draws its variants: depths, constants, how bounds and conditions are spelled, which role says it in which way, a loop over
tiles around everything.
"""

from collections.abc import Callable

from tests.protocol.drawing import Draw, Kernel, Lines, indented, pair, source, two_ways

BOUNDS: tuple[tuple[str, ...], ...] = (
    ("n", "n + 1 - 1", "max(n, 0)", "0 + n", "n - 2 + 2", "2 * n - n", "max(0, n)"),
    ("2 * n", "n * 2", "n + n", "3 * n - n"),
    ("3 * n", "n + n + n", "n + 2 * n"),
    ("ceildiv(n, 2)", "(n + 1) // 2", "n - n // 2", "-((-n) // 2)"),
    ("ceildiv(n, 64)", "(n + 63) // 64", "(n - 1) // 64 + 1"),
    ("n + m", "m + n", "m + 1 + n - 1"),
    ("min(n, 3)", "min(3, n)", "n if n < 3 else 3", "3 if n > 3 else n", "3 if n >= 3 else n"),
    ("min(n, m)", "min(m, n)", "n if n < m else m", "m if m <= n else n"),
    ("max(n, m)", "max(m, n)", "n if n > m else m"),
    ("n // 4", "(2 * n) // 8", "(n + 4) // 4 - 1"),
    ("n - 1", "-1 + n", "max(n, 1) - 1", "max(n - 1, 0)"),
    ("n // 4", "n // 2 // 2"),
    ("ceildiv(n, 8)", "ceildiv(ceildiv(n, 2), 4)"),
    ("n % 4", "n - n // 4 * 4"),
)


def bounds(draw: Draw) -> Kernel:
    """One bound, spelled in two ways."""
    rows = draw.random.choice(BOUNDS)
    rows = tuple(f"({row})" for row in rows)
    one, other = draw.random.choice(rows), draw.random.choice(rows)
    return pair(draw, draw.loop(one, ["{p+}"]), draw.loop(other, ["{p-}"]))


CONDITIONS: tuple[tuple[str, ...], ...] = (
    ("n > m", "m < n", "not n <= m", "n >= m + 1", "n - m > 0", "not (m >= n)"),
    ("{i} == n - 1", "{i} + 1 == n", "n == {i} + 1", "not {i} + 1 != n", "{i} + 1 >= n", "not {i} < n - 1"),
    ("{i} % 2 == 0", "{i} % 2 != 1", "{i} // 2 * 2 == {i}", "{i} - 2 * ({i} // 2) == 0", "not {i} % 2 == 1"),
    ("{i} % 3 == 1", "({i} + 2) % 3 == 0", "not {i} % 3 != 1"),
    ("{i} > 0", "{i} != 0", "0 < {i}", "not {i} == 0", "{i} >= 1"),
    ("n > 0 and m > 0", "not (n <= 0 or m <= 0)", "m >= 1 and n >= 1", "min(n, m) > 0"),
    ("n == 3", "3 == n", "not n != 3", "n >= 3 and n <= 3", "n > 2 and n < 4"),
    ("{i} < m", "m > {i}", "not {i} >= m", "{i} + 1 <= m"),
    ("{i} == 1 or {i} == 3", "{i} == 3 or {i} == 1", "not ({i} != 1 and {i} != 3)"),
)


def conditions(draw: Draw) -> Kernel:
    """Some turns are left out, by one condition spelled in two ways."""
    row = draw.random.choice(CONDITIONS)
    negated = draw.chance(0.3)

    def side(stage: str) -> Lines:
        spelled, index = draw.random.choice(row), draw.random.randrange(3)
        if negated:
            spelled = f"not ({spelled})"

        def body(i: str) -> Lines:
            text = spelled.replace("{i}", i)
            if index == 0:
                return [f"if not ({text}):", "    pass", "else:", f"    {stage}"]
            return [f"if {text}:", f"    {stage}"]

        return draw.loop("n", body)

    return pair(draw, side("{p+}"), side("{p-}"))


def guarded_prologue(draw: Draw) -> Kernel:
    """The first turns, or the last, stand outside of the loop, under their condition."""
    turns = draw.random.randint(1, 3)
    peeled: Lines
    way = draw.random.randrange(4)
    if way == 0:
        peeled = [line for turn in range(turns) for line in (f"if n > {turn}:", "    {p-}")]
        peeled += draw.loop("n", ["{p-}"], start=str(turns))
    elif way == 1:
        inner: Lines = []
        for turn in reversed(range(turns)):
            inner = [f"if n > {turn}:", *indented(["{p-}", *inner])]
        peeled = [*inner, *draw.loop("n", ["{p-}"], start=str(turns))]
    elif way == 2:
        peeled = [*draw.loop(f"(n - {turns})", ["{p-}"])]
        peeled += [line for turn in range(turns) for line in (f"if n > {turn}:", "    {p-}")]
    else:
        peeled = [f"if n >= {turns}:", *indented(["{p-}"] * turns), "else:", *indented(draw.loop("n", ["{p-}"]))]
        peeled += draw.loop("n", ["{p-}"], start=str(turns))
    return pair(draw, draw.loop("n", ["{p+}"]), peeled)


def run_ahead(draw: Draw) -> Kernel:
    """a is `ahead` turns in front of the answers that it waits for."""
    ahead = draw.random.randint(1, 3)
    way = draw.random.randrange(4)
    if way == 0:
        first = [line for turn in range(ahead) for line in (f"if n > {turn}:", "    {p+}")]
        steady = draw.plain("n", ["{p+}", "{q-}"], start=str(ahead))
        last = [line for turn in range(ahead) for line in (f"if n > {turn}:", "    {q-}")]
        a = [*first, *steady, *last]
    elif way == 1:
        steady = draw.plain("n", ["{p+}", "{q-}"], start=str(ahead))
        a = [*draw.plain(f"min(n, {ahead})", ["{p+}"]), *steady, *draw.plain(f"min(n, {ahead})", ["{q-}"])]
    elif way == 2:
        a = draw.plain("n", lambda i: ["{p+}", f"if {i} >= {ahead}:", "    {q-}"])
        a += draw.plain(f"min(n, {ahead})", ["{q-}"])
    else:
        a = draw.plain(f"n + {ahead}", lambda i: [f"if {i} < n:", "    {p+}", f"if {i} >= {ahead}:", "    {q-}"])
        a = ["if n > 0:", *indented(a)]
    b = draw.loop("n", ["{p-}", "{q+}"])
    return two_ways(draw, a, b, draw.depth(), draw.depth(ahead))


def lag(draw: Draw) -> Kernel:
    """A consumer gives each stage back `behind` turns after it has read it."""
    behind = draw.random.randint(1, 3)
    wait, free = "p.wait_producer()", "p.consumer_release()"
    del wait, free
    way = draw.random.randrange(3)
    if way == 0:  # what is read is passed on later
        b = draw.plain("n", lambda i: ["{p-}", f"if {i} >= {behind}:", "    {q+}"])
        b += draw.plain(f"min(n, {behind})", ["{q+}"])
    elif way == 1:
        b = [line for turn in range(behind) for line in (f"if n > {turn}:", "    {p-}")]
        b += draw.plain("n", ["{p-}", "{q+}"], start=str(behind))
        b += [line for turn in range(behind) for line in (f"if n > {turn}:", "    {q+}")]
    else:
        b = draw.plain(f"min(n, {behind})", ["{p-}"])
        b += draw.plain("n", ["{q+}", "{p-}"], start=str(behind))
        b += draw.plain(f"min(n, {behind})", ["{q+}"])
    return draw.tiles(
        Kernel(
            {"p": (draw.depth(), "a", "b"), "q": (draw.depth(), "b", "c")},
            {"a": draw.loop("n", ["{p+}"]), "b": b, "c": draw.loop("n", ["{q-}"])},
        )
    )


def chain(draw: Draw) -> Kernel:
    """Each role passes on what it reads, at times one turn later."""
    count = draw.random.randint(3, 7)
    names = "abcdefg"[:count]
    pipes = {f"p{i}": (draw.depth(), names[i], names[i + 1]) for i in range(count - 1)}
    roles: dict[str, Lines] = {names[0]: draw.loop("n", ["{p0+}"]), names[-1]: draw.loop("n", [f"{{p{count - 2}-}}"])}
    late = draw.chance(0.6)
    for i in range(1, count - 1):
        read, fill = f"{{p{i - 1}-}}", f"{{p{i}+}}"
        way = draw.random.randrange(3) if late else 0
        if way == 0:
            roles[names[i]] = draw.loop("n", [read, fill])
        elif way == 1:
            roles[names[i]] = ["if n > 0:", f"    {read}", *draw.plain("n", [read, fill], start="1"), "if n > 0:", f"    {fill}"]
        else:
            roles[names[i]] = [
                *draw.plain("n", lambda j, read=read, fill=fill: [read, f"if {j} > 0:", f"    {fill}"]),
                "if n > 0:",
                f"    {fill}",
            ]
    return draw.tiles(Kernel(pipes, {name: roles[name] for name in names}), 0.25)


def unrolled(draw: Draw) -> Kernel:
    """Several turns in one, and the rest behind it, or before."""
    times = draw.random.randint(2, 4)
    whole = draw.loop(f"(n // {times})", ["{p-}"] * times)
    way = draw.random.randrange(4)
    if way == 0:
        rest = draw.plain(f"n % {times}", ["{p-}"])
        body = ["if n > 0:", *indented([*whole, *rest])]
    elif way == 1:
        rest = draw.plain("n", ["{p-}"], start=f"n // {times} * {times}")
        body = ["if n > 0:", *indented([*whole, *rest])]
    elif way == 2:
        name = draw.name()
        body = [f"for {name} in range(0, n, {times}):", "    {p-}"]
        body += [line for turn in range(1, times) for line in (f"    if {name} + {turn} < n:", "        {p-}")]
    else:
        body = draw.loop("n", ["{p-}"] * times)
        return pair(draw, draw.loop(f"({times} * n)", ["{p+}"]), body)
    return pair(draw, draw.loop("n", ["{p+}"]), body)


def stride(draw: Draw) -> Kernel:
    """Steps of `step` against a count."""
    step = draw.random.randint(2, 6)
    name = draw.name()
    way = draw.random.randrange(4)
    if way == 0:
        return pair(draw, [f"for {name} in range(0, n, {step}):", "    {p+}"], draw.loop(f"ceildiv(n, {step})", ["{p-}"]))
    if way == 1:
        return pair(draw, [f"for {name} in range(0, {step} * n, {step}):", "    {p+}"], draw.loop("n", ["{p-}"]))
    if way == 2:
        return pair(
            draw, [f"for {name} in range(n - 1, -1, -{step}):", "    {p+}"], draw.loop(f"((n + {step - 1}) // {step})", ["{p-}"])
        )
    start = draw.random.randint(1, 3)
    return pair(
        draw,
        [f"for {name} in range({start}, n, {step}):", "    {p+}"],
        [f"for {name} in range({start + 1}, n + 1, {step}):", "    {p-}"],
    )


def flat(draw: Draw) -> Kernel:
    """Nested loops against one over the product."""
    way = draw.random.randrange(5)
    few = draw.random.randint(2, 6)
    nested = lambda outer, inner: draw.plain(outer, lambda _: draw.plain(inner, ["{p+}"]))
    if way == 0:
        return pair(draw, nested("n", str(few)), draw.loop(f"({few} * n)", ["{p-}"]))
    if way == 1:
        return pair(draw, nested(str(few), "n"), draw.loop(f"(n * {few})", ["{p-}"]))
    if way == 2:
        one, other = draw.random.choice([(2, 6), (3, 4), (2, 4), (3, 3), (5, 2)])
        return pair(draw, nested(str(one), str(other)), draw.loop(str(one * other), ["{p-}"]))
    if way == 3:  # products of sizes; of tensors, so not negative
        return pair(draw, nested("M", "N"), draw.loop("(M * N)", ["{p-}"]), tiles=0)
    name = draw.name()
    return pair(draw, nested("N", "M"), [f"for {name} in range(N * M):", "    {p-}"], tiles=0)


def parted(draw: Draw) -> Kernel:
    """One loop against two or three in a row."""
    way = draw.random.randrange(4)
    guard = lambda lines: ["if n >= 0 and m >= 0:", *indented(lines)]
    if way == 0:
        return pair(
            draw, guard(draw.loop("(n + m)", ["{p+}"])), guard([*draw.loop("n", ["{p-}"]), *draw.loop("m", ["{p-}"])]), tiles=0
        )
    if way == 1:
        few = draw.random.randint(1, 4)
        return pair(
            draw, draw.loop("n", ["{p+}"]), [*draw.loop(f"min(n, {few})", ["{p-}"]), *draw.plain("n", ["{p-}"], start=str(few))]
        )
    if way == 2:
        few = draw.random.randint(1, 4)
        return pair(
            draw, draw.loop("n", ["{p+}"]), [*draw.loop(f"min(n, {few})", ["{p-}"]), *draw.loop(f"(n - {few})", ["{p-}"])]
        )
    half = "(n // 2)"
    return pair(
        draw,
        draw.loop("max(n, 0)", ["{p+}"]),
        ["if n > 0:", *indented([*draw.loop(half, ["{p-}"]), *draw.plain("n", ["{p-}"], start="n // 2")])],
    )


def parity(draw: Draw) -> Kernel:
    """Turns go to pipelines in turn: even and odd ones, or by the remainder of three."""
    ways = draw.random.choice((2, 2, 3))
    test = lambda i: [(f"{i} % {ways} == {r}") for r in range(ways)]

    def split(side: str) -> Callable[[str], Lines]:
        def body(i: str) -> Lines:
            found: Lines = []
            for r in range(ways):
                word = "if" if r == 0 else "elif" if r < ways - 1 else "else"
                found += [f"{word}{'' if word == 'else' else ' ' + test(i)[r]}:", f"    {{p{r}{side}}}"]
            return found

        return body

    def share(r: int, side: str) -> Lines:
        name = draw.name()
        way = draw.random.randrange(4)
        if way == 0:
            return [f"for {name} in range({r}, n, {ways}):", f"    {{p{r}{side}}}"]
        if way == 1:
            return [f"for {name} in range((max(n, 0) + {ways - 1 - r}) // {ways}):", f"    {{p{r}{side}}}"]
        if way == 2:
            return [f"for {name} in range(n):", f"    if {name} % {ways} == {r}:", f"        {{p{r}{side}}}"]
        return [f"{name} = {r}", f"while {name} < n:", f"    {{p{r}{side}}}", f"    {name} += {ways}"]

    names = "bcd"[:ways]
    into = draw.chance(0.3)
    mine, theirs = ("-", "+") if into else ("+", "-")
    pipes = {f"p{r}": ((draw.depth(), names[r], "a") if into else (draw.depth(), "a", names[r])) for r in range(ways)}
    whole = draw.plain("n", split(mine))
    return draw.tiles(Kernel(pipes, {"a": whole, **{name: share(r, theirs) for r, name in enumerate(names)}}))


def filled(draw: Draw) -> Kernel:
    """As many stages as there are, or as are needed, are filled before any comes back."""
    way = draw.random.randrange(4)
    depth = draw.random.randint(1, 4)
    bound = draw.text(f"min(n, {depth})", f"min({depth}, n)")
    if way == 0:  # one role fills, then looks at what came back
        a = [*draw.plain(bound, ["{p+}"]), *draw.plain(bound, ["{q-}"])]
        b = draw.loop(f"min(n, {depth})", ["{p-}", "{q+}"])
        return two_ways(draw, a, b, draw.depth(), draw.depth(depth))
    if way == 1:  # both fill first, then both read
        a = [*draw.plain(bound, ["{p+}"]), *draw.plain(bound, ["{q-}"])]
        b = [*draw.plain(bound, ["{q+}"]), *draw.plain(bound, ["{p-}"])]
        return two_ways(draw, a, b, depth, depth)
    if way == 2:  # one pipeline after the other
        a = [*draw.plain(bound, ["{p+}"]), *draw.plain(bound, ["{q+}"])]
        b = [*draw.plain(bound, ["{q-}"]), *draw.plain(bound, ["{p-}"])]
        return draw.tiles(Kernel({"p": (depth, "a", "b"), "q": (draw.depth(), "a", "b")}, {"a": a, "b": b}))
    a = [*draw.plain(str(depth), ["{p+}"]), *draw.plain("n", ["{q-}"])]
    b = [*draw.plain("n", ["{q+}"]), *draw.plain(str(depth), ["{p-}"])]
    return two_ways(draw, a, b, depth, draw.depth())


def loaded(draw: Draw) -> Kernel:
    """Bounds that are read from memory, for each tile or once. (One that is the largest number may not be added to.)"""
    upward = lambda body: draw.plain("load(ix[0])", body)
    way = draw.random.randrange(5)
    if way == 0:
        return draw.tiles(
            Kernel(
                {"p": (draw.depth(), "a", "b")},
                {"a": upward(["{p+}"]), "b": upward(["{p-}"])},
            )
        )
    if way == 1:
        sides = {
            name: draw.plain("M", lambda t, s=s: draw.plain(f"load(ix[{t}])", [s])) for name, s in (("a", "{p+}"), ("b", "{p-}"))
        }
        return Kernel({"p": (draw.depth(), "a", "b")}, sides)
    if way == 2:  # an output for each tile
        a = draw.plain("M", lambda t: draw.plain(f"load(ix[{t}])", ["{p+}"]))
        b = draw.plain("M", lambda t: ["with q.produce() as s:", *indented(draw.plain(f"load(ix[{t}])", ["{p-}"]))])
        return Kernel(
            {"p": (draw.depth(), "a", "b"), "q": (draw.depth(), "b", "c")}, {"a": a, "b": b, "c": draw.loop("M", ["{q-}"])}
        )
    if way == 3:  # from one group's end to the next
        sides = {
            name: draw.plain("(M - 1)", lambda t, s=s: draw.plain(f"(load(ix[{t} + 1]) - load(ix[{t}]))", [s]))
            for name, s in (("a", "{p+}"), ("b", "{p-}"))
        }
        return Kernel({"p": (draw.depth(), "a", "b")}, sides)
    sides = {
        name: draw.plain("M", lambda t, s=s: [f"if load(ix[{t}]) > 0:", f"    {s}"]) for name, s in (("a", "{p+}"), ("b", "{p-}"))
    }
    return Kernel({"p": (draw.depth(), "a", "b")}, sides)


WHILES: tuple[tuple[Lines, str, Lines], ...] = (
    (["x = n"], "x > 0", ["x -= 1"]),
    (["x = n"], "x > 0", ["x = x - 3"]),
    (["x = n"], "x > 0", ["x = x // 2"]),
    (["x = n"], "x > 1", ["x = (x + 1) // 2"]),
    (["x = 1"], "x < n and x < 1000000", ["x = x * 2"]),
    (["x = 0", "y = n"], "x < y", ["x += 1", "y -= 1"]),
    (["x = 0"], "x < n and x < m", ["x += 2"]),
    (["x = 0"], "x < n or x < m", ["x += 1"]),
    (["x = m", "y = 0"], "y < n", ["y += 1", "x += y % 2"]),
)


def whiles(draw: Draw) -> Kernel:
    """The same condition in all roles."""
    begin, condition, step = draw.random.choice(WHILES)

    def side(stage: str) -> Lines:
        behind = draw.chance(0.5)
        return [*begin, f"while {condition}:", *indented([stage, *step] if behind else [*step, stage])]

    return pair(draw, side("{p+}"), side("{p-}"))


def outputs(draw: Draw) -> Kernel:
    """A loop per tile, and one output for it, as a product of matrices has it; the roles spell the loops apart."""
    rows = tuple(f"({row})" for row in draw.random.choice(BOUNDS[:10]))
    inner = [draw.random.choice(rows) for _ in range(2)]
    heads = ["for t in range(m):", "for t in range(1, m + 1):", "for t in range(m - 1, -1, -1):"]
    a = [draw.text(*heads), *indented(draw.loop(inner[0], ["{p+}"]))]
    b = [draw.text(*heads), *indented(["with q.produce() as s:", *indented(draw.loop(inner[1], ["{p-}"]))])]
    c = [draw.text(*heads), "    {q-}"]
    return Kernel({"p": (draw.depth(), "a", "b"), "q": (draw.depth(), "b", "c")}, {"a": a, "b": b, "c": c})


FAMILIES: tuple[Callable[[Draw], Kernel], ...] = (
    bounds, conditions, guarded_prologue, run_ahead, lag, chain, unrolled, stride, flat, parted, parity, filled, loaded, whiles,
    outputs,
)  # fmt: skip


def right(seed: int) -> tuple[str, str]:
    """The name of the family, and a kernel of it."""
    family = FAMILIES[seed % len(FAMILIES)]
    draw = Draw(f"{family.__name__} {seed}")
    return family.__name__, source(family(draw), draw)
