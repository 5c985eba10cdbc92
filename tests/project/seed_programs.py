"""Right and wrong programs for names of the pipeline pages that neither examples/ nor tests/errors call.

The three pipelines that hold barriers by themselves take the same programs: what differs is how they are declared and how a slot's
tile is spelt.
"""

from dataclasses import dataclass

from pipec.sema.language.operations import MEMBERS

# Declaration, and what stands for `t` in the programs.
KINDS = {
    "ProducerConsumerPipeline": ("p = ProducerConsumerPipeline(stages=2)\n    t = SharedTiles(tile[f32, 64, 64], count=2)", "t"),
    "EpiLoadPipeline": ("p = EpiLoadPipeline(stages=2)\n    t = SharedTiles(tile[f32, 64, 64], count=2)", "t"),
    "InputTilePipeline": ("p = InputTilePipeline(TilePayload(x=tile[f32, 64, 64]), stages=2)", "p.payload.x"),
}


@dataclass(frozen=True)
class Wrong:
    """A program and the names that it misuses, as `receiver.name`: the code of the message that points at the call."""

    text: str
    names: dict[str, str]


def two_roles(kind: str, producer: str, consumer: str) -> str:
    """A kernel of two roles that loop over `i`; each body is given without its indentation."""
    declaration, tiles = KINDS[kind]
    lines = [
        "kernel k(x: tensor[f32, M, N], y: tensor[f32, M, N]):",
        "    grid(ceildiv(M, 64))",
        f"    {declaration}",
        "    role first(warps=1) produces p:",
        "        for i in range(ceildiv(N, 64)):",
        *(f"            {line}" for line in producer.splitlines()),
        "    role second(warps=4) consumes p:",
        "        for i in range(ceildiv(N, 64)):",
        *(f"            {line}" for line in consumer.splitlines()),
    ]
    return "\n".join(lines).replace("(t[", f"({tiles}[").replace(" t[", f" {tiles}[") + "\n"


_LOAD = "tma.load(t[{}], x[block.x * 64, i * 64])"
_STORE = "store(y[block.x * 64, i * 64], t[{}])"
_LOAD_CURRENT = _LOAD.format("p.producer_stage()") + "\np.producer_step()"
_STORE_CURRENT = _STORE.format("p.consumer_stage()") + "\narrive(p.consumer_mbar(p.consumer_stage()))\np.consumer_step()"

FILLS = (
    f"with p.produce() as s:\n    {_LOAD.format('s.index()')}",
    f"s = p.acquire_producer()\n{_LOAD.format('s.stage()')}\ns.release()",
    f"p.wait_consumer()\n{_LOAD_CURRENT}",
    f"ready = p.try_acquire_producer()\np.wait_consumer_if_needed(ready)\n{_LOAD_CURRENT}",
    f"p.wait_consumer_if_needed(p.try_wait_consumer())\n{_LOAD_CURRENT}",
    """p.wait_consumer()
tma.load(t[p.producer_stage()], x[block.x * 64, i * 64], p.producer_mbar(p.producer_stage()))
p.producer_step()""",
)
READS = (
    f"with p.consume() as s:\n    {_STORE.format('s.index()')}",
    f"s = p.acquire_consumer()\n{_STORE.format('s.stage()')}\ns.release()",
    f"with p.consume_explicit() as s:\n    {_STORE.format('s.index()')}\n    s.arrive()",
    f"p.wait_producer()\n{_STORE_CURRENT}",
    f"ready = p.try_acquire_consumer()\np.wait_producer_if_needed(ready)\n{_STORE_CURRENT}",
    f"p.wait_producer_if_needed(p.try_wait_producer())\n{_STORE_CURRENT}",
)


def _of_kind(producer: str, consumer: str, *names: tuple[str, str]) -> tuple[Wrong, ...]:
    """The same misuse of each pipeline that holds barriers by itself."""
    return tuple(
        Wrong(two_roles(kind, producer, consumer), {f"{kind}.{name}": code for name, code in names})
        for kind in KINDS
        if not any(name in _THROTTLES and name not in MEMBERS[kind] for name, _ in names)
    )


def in_turn(kind: str) -> str:
    """Two consumers, each of which takes every second stage."""
    lines = two_roles(kind, f"{FILLS[0]}\n{FILLS[0]}", f"with turn.produce():\n{_indented(READS[0])}\np.skip()").splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("    role"))
    turn = "    turn = ProducerConsumerPipeline(stages=1)"
    other = lines[next(number for number, line in enumerate(lines) if "role second" in line) :]
    held = [line.replace("turn.produce()", "turn.consume()") for line in other[2:-1]]
    third = ["    role third(warps=4) consumes p, turn:", other[1], other[-1], *(line.replace("y[", "z[") for line in held)]
    text = "\n".join([*lines[:place], turn, *lines[place:], *third])
    return text.replace("consumes p:", "consumes p produces turn:").replace("N]):", "N], z: tensor[f32, M, N]):") + "\n"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


_THROTTLES = ("producer_signal_and_step", "consumer_signal_and_step")

_BARRIER_PIPELINES = (
    *_of_kind("s = p.produce()", "s = p.consume()", ("produce", "E0235"), ("consume", "E0235")),
    *_of_kind(f"s = p.acquire_producer()\n{_LOAD.format('s.index()')}", f"s = p.acquire_consumer()\n{_STORE.format('s.index()')}",
              ("acquire_producer", "E0301"), ("acquire_consumer", "E0301")),
    *_of_kind(FILLS[0], f"with p.consume_explicit() as s:\n    {_STORE.format('s.index()')}", ("consume_explicit", "E0312")),
    *_of_kind("p.producer_step()", "p.consumer_step()", ("producer_step", "E0241"), ("consumer_step", "E0241")),
    *_of_kind(_LOAD.format("p.producer_stage()"), "arrive(p.consumer_mbar(p.consumer_stage()))",
              ("producer_stage", "E0241"), ("consumer_stage", "E0241")),
    *_of_kind(f"p.wait_consumer()\n{_LOAD.format('p.producer_stage()')}", f"p.wait_producer()\n{_STORE.format('p.consumer_stage()')}",
              ("wait_consumer", "E0331"), ("wait_producer", "E0331")),
    *_of_kind("p.wait_consumer()\narrive(p.consumer_mbar(p.producer_stage()))\np.producer_step()",
              "p.wait_producer()\narrive(p.producer_mbar(p.consumer_stage()))\np.consumer_step()",
              ("consumer_mbar", "E0431"), ("producer_mbar", "E0431")),
    *_of_kind("ready = p.try_acquire_producer()", "ready = p.try_acquire_consumer()",
              ("try_acquire_producer", "E0341"), ("try_acquire_consumer", "E0341")),
    *_of_kind("ready = p.try_wait_consumer()", "ready = p.try_wait_producer()",
              ("try_wait_consumer", "E0341"), ("try_wait_producer", "E0341")),
    *_of_kind("ready = p.try_acquire_producer()\np.wait_producer_if_needed(ready)",
              "ready = p.try_acquire_consumer()\np.wait_consumer_if_needed(ready)",
              ("wait_producer_if_needed", "E0432"), ("wait_consumer_if_needed", "E0432")),
    *_of_kind(FILLS[0], f"{READS[0]}\np.skip()", ("skip", "E0422")),
    *_of_kind("with elect():\n    p.producer_signal_and_step()", "with elect():\n    p.consumer_signal_and_step()",
              ("producer_signal_and_step", "E0410"), ("consumer_signal_and_step", "E0410")),
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------------- views and stages

_GEMM = """kernel g(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=4, k_group_size=1)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=2)
    static_assert({condition}, "constants of the pipelines")
    role load(warps=1) produces input:
        view = input.producer()
        for k in range(ceildiv(K, 64)):
            {load}
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])
            {loaded}
    role multiply(warps=1) consumes input produces output:
        view = input.consumer()
        out = output.producer()
        {accumulate}
            for k in range(ceildiv(K, 64)):
                {multiply}
                    mma(acc.{offset}(), s.a, s.b)
                {multiplied}
        {accumulated}
    role epilogue(warps=4) consumes output:
        out = output.consumer()
        {drain}
            store(d[block.x * 128, block.y * 64], s.{offset}())
        {drained}
"""
_SCOPED = {
    "condition": "input.num_group_stages + input.k_group_size + output.num_stages + output.stage_stride_cols == 71",
    "load": "with view.acquire() as s:",
    "loaded": "pass",
    "accumulate": "with out.acquire() as acc:",
    "multiply": "with view.acquire() as s:",
    "multiplied": "pass",
    "accumulated": "pass",
    "drain": "with out.acquire() as s:",
    "drained": "pass",
    "offset": "tmem_offset",
}
_LINEAR = {
    "load": "s = view.acquire_stage()\n            if True:",
    "loaded": "s.release()",
    "accumulate": "acc = out.acquire_stage()\n        if True:",
    "multiply": "s = view.acquire_stage()\n                if True:",
    "multiplied": "s.release()",
    "accumulated": "acc.release()",
    "drain": "s = out.acquire_stage()\n        if True:",
    "drained": "s.release()",
    "offset": "tmem",
}
# As the stages of other pipelines are obtained.
_ACCUMULATORS = {
    "accumulate": "acc = output.acquire_producer()\n        if True:",
    "drain": "s = output.acquire_consumer()\n        if True:",
}
_LOOKS = {
    "load": "ready = view.try_acquire()\n            with view.acquire_if_needed(ready) as s:",
    "multiply": "ready = view.try_acquire()\n                with view.acquire_if_needed(ready) as s:",
}


def _gemm(*changes: dict[str, str]) -> str:
    parts = dict(_SCOPED)
    for change in changes:
        parts |= change
    return _GEMM.format(**parts)


def _after(place: str, use: str) -> str:
    """A use of a stage after its release: `place` is where the release stands."""
    indent = {"loaded": 12, "multiplied": 16}.get(place, 8)
    return _gemm(_LINEAR, {place: f"{_LINEAR[place]}\n{' ' * indent}{use}"})


_ROLES = """kernel r():
    grid(1)
    p = RolePipeline(stages=3)
    role one(warps=1) produces p:
        for i in range(p.num_stages):
            p.acquire()
            p.commit()
    role two(warps=1) consumes p:
        for i in range(p.num_stages):
            p.wait()
            {release}
"""
_PER_K = """kernel b(a: tensor[e4m3, M, K], b: tensor[e4m3, N, K], a_scales: tensor[f32, KB, M], d: tensor[f32, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    input = InputTilePipeline(
        BlockwiseFP8TilePayload(a=tile[e4m3, 128, 128], b=tile[e4m3, 64, 128], a_scales=tile[f32, 1, 128]), stages=4)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=2)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, 128)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 128])
                tma.load(s.b, b[block.y * 64, k * 128])
                tma.load(s.a_scales, a_scales[k, block.x * 128])
    role multiply(warps=1) consumes input produces output:
        blocks = output.per_k()
        for k in range(ceildiv(K, 128)):
            with blocks.produce() as acc, input.consume() as s:
                mma(acc, s.a, s.b)
    role epilogue(warps=4) consumes output, input:
        total = registers(fill(0.0, f32, 128, 64))
        for k in range(ceildiv(K, 128)):
            {body}
        store.direct(d[block.x * 128, block.y * 64], total)
"""
_PER_K_RIGHT = """tiles = stage.payload()
                if stage.index() >= 0 and stage.input_index() < input.num_group_stages:
                    total = total + stage.tmem_offset() * tiles.a_scales.T"""
_PER_K_CONSUME = """with output.per_k().consume() as acc, input.consume() as s:
                total = total + acc * s.a_scales.T"""


def _per_k(body: str) -> str:
    return _PER_K.format(body=f"with output.per_k_epilogue(input) as stage:\n                {body}")


_OF_VIEWS = (
    Wrong(_gemm({"load": "s = view.acquire()\n            if True:", "multiply": "s = view.acquire()\n                if True:"}),
          {"producer view.acquire": "E0235", "consumer view.acquire": "E0235"}),
    Wrong(_gemm(_LINEAR, {"loaded": "pass", "multiplied": "pass"}),
          {"producer view.acquire_stage": "E0301", "consumer view.acquire_stage": "E0301"}),
    Wrong(_gemm({"load": "ready = view.try_acquire()\n            with view.acquire() as s:",
                 "multiply": "ready = view.try_acquire()\n                with view.acquire() as s:"}),
          {"producer view.try_acquire": "E0345", "consumer view.try_acquire": "E0345"}),
    Wrong(_gemm({"load": "ready = input.try_acquire_consumer()\n            with view.acquire_if_needed(ready) as s:",
                 "multiply": "ready = input.try_acquire_producer()\n                with view.acquire_if_needed(ready) as s:"}),
          {"producer view.acquire_if_needed": "E0432", "consumer view.acquire_if_needed": "E0432"}),
    Wrong(_gemm({"multiplied": "input.producer().drain()", "drained": "output.producer().drain()"}),
          {"producer view.drain": "E0419", "InputTilePipeline.producer": "E0419", "OutputTilePipeline.producer": "E0419"}),
    Wrong(_gemm({"multiplied": "input.consumer().drain()", "drained": "output.consumer().drain()"}),
          {"InputTilePipeline.consumer": "E0207", "OutputTilePipeline.consumer": "E0207"}),
    Wrong(_gemm({"accumulated": "output.per_k().drain()"}), {"OutputTilePipeline.per_k": "E0207"}),
    Wrong(_PER_K.format(body="stage = output.per_k().consume()"), {"per-K view.consume": "E0235"}),
)  # fmt: skip

_OF_STAGES = (
    *(Wrong(_after("loaded", use), {f"producer stage.{name}": "E0304"})
      for name, use in (("stage", "number = s.stage()"), ("barrier", "mma.commit(s.barrier())"),
                        ("payload", "tma.load(s.payload().a, a[0, 0])"))),
    *(Wrong(_after("multiplied", use), {f"consumer stage.{name}": "E0304"})
      for name, use in (("stage", "number = s.stage()"), ("payload", "mma(acc, s.payload().a, s.b)"))),
    *(Wrong(_after("drained", f"store(d[0, 0], s.{name}())"), {f"consumer stage.{name}": "E0304"}) for name in ("tmem", "tmem_offset")),
    *(Wrong(_gemm({"accumulate": "with out.acquire() as acc:\n            write(acc.OF(), fill(0.0, f32, 128, 64))".replace("OF", name)}),
            {f"producer stage.{name}": "E0505"}) for name in ("tmem", "tmem_offset")),
    Wrong(_gemm(_LINEAR, {"accumulate": "acc = output.acquire_for_mma()\n        if True:", "accumulated": "pass"}),
          {"OutputTilePipeline.acquire_for_mma": "E0301"}),
    Wrong(_gemm(_LINEAR, _ACCUMULATORS, {"accumulated": "pass", "drained": "pass"}),
          {"OutputTilePipeline.acquire_producer": "E0301", "OutputTilePipeline.acquire_consumer": "E0301"}),
    Wrong(_gemm(_LINEAR, {"accumulate": "acc = output.acquire_for_mma()\n        if True:",
                          "accumulated": "output.release_from_mma(acc)\n        output.release_from_mma(acc)"}),
          {"OutputTilePipeline.release_from_mma": "E0302"}),
    *(Wrong(_per_k(f"write(stage.{name}(), total)"), {f"per-K epilogue stage.{name}": "E0416"}) for name in ("tmem", "tmem_offset")),
    Wrong(_per_k("total = total + stage.tmem() * stage.payload().b_scales.T"), {"per-K epilogue stage.payload": "E0207"}),
    Wrong(_per_k("arrive(input.consumer_mbar(stage.index()))"), {"per-K epilogue stage.index": "E0203"}),
    Wrong(_per_k("total = total * stage.input_index()"), {"per-K epilogue stage.input_index": "E0204"}),
    Wrong(_PER_K.format(body="with elect():\n                store.direct(d[0, 0], total)"), {".store.direct": "E0410"}),
)  # fmt: skip

_OF_CONSTANTS = tuple(
    Wrong(_gemm({"condition": f"{pipeline}.{name}() == 2"}), {f"{kind}.{name}": "E0209"})
    for pipeline, kind, name in (
        ("output", "OutputTilePipeline", "num_stages"),
        ("input", "InputTilePipeline", "k_group_size"),
        ("input", "InputTilePipeline", "payload"),
    )
)

_VOTE = """kernel k(x: tensor[f32, M, 8], y: tensor[f32, M, 8]):
    grid(ceildiv(M, 128))
    role scale(warps=4):
        t = registers(load(x[block.x * 128, 0], 128, 8))
        if all({condition}):
            t = t * 2.0
        store.direct(y[block.x * 128, 0], t)
"""

_COLUMNS = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, T, N]):
    grid(1)
    role compute(warps=4):
        t = load(x[0, 0], 128, 32)
        store.direct(y[0, 0], column_max(t) - column_min(t))
"""
RIGHT = (
    _VOTE.format(condition="t > 1.0"),
    _COLUMNS,
    *(two_roles(kind, fill, read) for kind in KINDS for fill, read in zip(FILLS, READS, strict=True)),
    *map(in_turn, KINDS),
    *(two_roles(kind, "p.producer_signal_and_step()", "p.consumer_signal_and_step()") for kind in tuple(KINDS)[:2]),
    _gemm(),
    _gemm(_LINEAR),
    _gemm(_LINEAR, _ACCUMULATORS),
    _gemm(_LOOKS),
    _per_k(_PER_K_RIGHT),
    _PER_K.format(body=_PER_K_CONSUME),
    _ROLES.format(release="p.release()"),
)
WRONG = (
    *_BARRIER_PIPELINES,
    *_OF_VIEWS,
    *_OF_STAGES,
    *_OF_CONSTANTS,
    Wrong(_VOTE.format(condition="t"), {".all": "E0203"}),
    Wrong(_ROLES.format(release="p.consumer_mbar[1]().arrive()"), {"RolePipeline.consumer_mbar": "E0320"}),
)
