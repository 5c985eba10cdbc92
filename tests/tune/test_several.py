"""Several kernels that answer as one (pipec.choose): what is chosen, what is called, and what is refused."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_measure import H200, FakeBench

import pipec
from pipec import library
from pipec.api.choosing import InTurn
from pipec.runtime import again
from pipec.tune import store
from pipec.tune.choice import Candidate
from pipec.tune.measure import best
from pipec.tune.table import parsed, rendered
from pipec.tune.tuned import Chosen, Gpu

HEAD = '    """Sums.\n\n    arch: sm_90a\n    """\n'
ROWS = f"""
kernel rows[BM: int = 64](x: tensor[f32, M, N], y: tensor[f32, M, N], alpha: f32):
{HEAD}    tune BM in (32, 64, 128)
    grid(ceildiv(M, BM), ceildiv(N, 64))
    ring = InputTilePipeline(TilePayload(x=tile[f32, BM, 64]), stages=2)

    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[block.x * BM, block.y * 64])

    role compute(warps=4) consumes ring:
        with ring.consume() as s:
            store(y[block.x * BM, block.y * 64], alpha * s.x)
"""
DIRECT = f"""
kernel direct(x: tensor[f32, M, N], y: tensor[f32, M, N], alpha: f32):
{HEAD}    assume(N % 32 == 0)
    grid(ceildiv(M, 16), ceildiv(N, 32))

    role compute(warps=4):
        tile = registers(load(x[block.x * 16, block.y * 32], 16, 32))
        store.direct(y[block.x * 16, block.y * 32], alpha * tile)
"""
TWO_STEPS = f"""
kernel add[ROWS: int = 16](x: tensor[f32, M, N], partial: tensor[f32, M, N]):
{HEAD}    tune ROWS in (16, 32)
    grid(ceildiv(M, ROWS), ceildiv(N, 32))

    role compute(warps=4):
        tile = registers(load(x[block.x * ROWS, block.y * 32], ROWS, 32))
        store.direct(partial[block.x * ROWS, block.y * 32], tile, reduce="add")

kernel finish(partial: tensor[f32, M, N], y: tensor[f32, M, N], alpha: f32):
{HEAD}    grid(ceildiv(M, 16), ceildiv(N, 32))

    role compute(warps=4):
        tile = registers(load(partial[block.x * 16, block.y * 32], 16, 32))
        store.direct(y[block.x * 16, block.y * 32], alpha * tile)
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("PIPEC_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def kernels() -> Mapping[str, pipec.CompiledKernel]:
    programs = [pipec.compile(text) for text in (ROWS, DIRECT, TWO_STEPS)]
    return {name: kernel for program in programs for name, kernel in program.items()}


@pytest.fixture
def scale(kernels: Mapping[str, pipec.CompiledKernel]) -> pipec.CompiledKernel:
    in_turn = kernels["add"], kernels["finish"]
    return pipec.choose(kernels["rows"], kernels["direct"], in_turn, scratch=["partial"], name="scale")


def arrays(m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(m).standard_normal((m, n), np.float32), np.full((m, n), np.nan, np.float32)


def named(kernel: pipec.CompiledKernel, text: str) -> Candidate:
    assert kernel.tuned is not None
    return next(one for one in kernel.tuned.choices.candidates if str(one) == text)


EVERY = (
    "kernel=rows BM=64",
    "kernel=rows BM=32",
    "kernel=rows BM=128",
    "kernel=direct",
    "kernel=add ROWS=16",
    "kernel=add ROWS=32",
)


def test_it_has_the_candidates_of_all_and_each_gives_the_same_result(scale: pipec.CompiledKernel) -> None:
    assert scale.tuned is not None
    assert sorted(map(str, scale.tuned.choices.candidates)) == sorted(EVERY) and str(scale.tuned.choices.file) == EVERY[0]
    for text in EVERY:
        for m, n in ((70, 64), (1, 32)):
            x, y = arrays(m, n)
            scale.tuned.of(named(scale, text))(x, y, 3.0, device="sim")
            assert np.array_equal(y, np.float32(3) * x), text


def test_in_the_simulator_the_first_answers(scale: pipec.CompiledKernel) -> None:
    x, y = arrays(40, 64)
    result = scale(x, alpha=2.0, y=y, device="sim")
    assert result.kernel == "rows" and np.array_equal(y, 2 * x)


def test_the_fastest_by_the_model_is_chosen_from_any_kernel(
    scale: pipec.CompiledKernel, kernels: Mapping[str, pipec.CompiledKernel]
) -> None:
    assert scale.tuned is not None
    for sizes in ({"M": 4096, "N": 4096}, {"M": 16, "N": 32}):
        ranked = {str(one.candidate): one.prediction.seconds for one in scale.tuned.choices.ranked(sizes)}
        assert set(ranked) == set(EVERY)
        for kernel in ("rows", "direct"):
            choices = kernels[kernel].choices
            assert choices is not None
            for one in choices().ranked(sizes):
                assert ranked[f"kernel={kernel} {one.candidate}".strip()] == one.prediction.seconds
        chosen = ranked[str(scale.tuned.choices.choose(sizes))]
        assert chosen <= 1.02 * min(ranked.values())
        # Two launches take longer than one of the same kind.
        assert ranked["kernel=add ROWS=16"] > ranked["kernel=direct"]


def test_what_sizes_rule_out_is_not_taken(scale: pipec.CompiledKernel) -> None:
    """`direct` asks for N % 32 == 0. Were it measured to be fastest, it would still not be called for other N in the same bucket."""
    tuned = scale.tuned
    assert tuned is not None
    outcome = best(tuned.choices, {"M": 512, "N": 512}, FakeBench({"kernel=direct": 1e-6}))
    tuned.remember(outcome.row(tuned.label))
    assert str(tuned.chosen({"M": 512, "N": 512}, H200).candidate) == "kernel=direct"
    assert tuned._made({"M": 512, "N": 512}, H200).name == "direct"
    other = tuned._made({"M": 512, "N": 508}, H200)
    assert other is None or other.interface.name != "direct"


def test_a_tile_that_an_assumption_rules_out_is_not_taken() -> None:
    text = ROWS.replace("    grid", "    assume(M % BM == 0)\n    grid")
    tuned = pipec.kernel(text).tuned
    assert tuned is not None
    outcome = best(tuned.choices, {"M": 512, "N": 512}, FakeBench({"BM=128": 1e-6}))
    tuned.remember(outcome.row(tuned.label))
    by_rows = {rows: tuned.of(next(one for one in tuned.choices.candidates if str(one) == f"BM={rows}")) for rows in (32, 128)}
    assert tuned._made({"M": 512, "N": 512}, H200) is by_rows[128]
    # Of the same bucket, and none a multiple of 128; the file has 64.
    assert tuned._made({"M": 480, "N": 512}, H200) is by_rows[32]
    assert tuned._made({"M": 448, "N": 512}, H200) in (by_rows[32], None)


def test_measurements_name_the_kernel_and_count_in_later_processes(
    scale: pipec.CompiledKernel, kernels: Mapping[str, pipec.CompiledKernel]
) -> None:
    tuned = scale.tuned
    assert tuned is not None and tuned.label == "scale"
    outcome = best(tuned.choices, {"M": 64, "N": 64}, FakeBench({"kernel=add ROWS=32": 1e-6}))
    row = outcome.row(tuned.label)
    assert "| scale | M=64 N=64 | kernel=add ROWS=32 |" in str(row) and str(parsed(rendered([row]))[0]) == str(row)
    tuned.remember(row)
    again = pipec.choose(
        kernels["rows"], kernels["direct"], (kernels["add"], kernels["finish"]), scratch=["partial"], name="scale"
    )
    assert again.tuned is not None and again.tuned.chosen({"M": 64, "N": 64}, H200).origin == "measured"
    fewer = pipec.choose(kernels["rows"], kernels["direct"], name="scale")
    assert fewer.tuned is not None and fewer.tuned.chosen({"M": 64, "N": 64}, H200).origin != "measured"


def test_a_later_process_does_not_rank_again(
    scale: pipec.CompiledKernel, kernels: Mapping[str, pipec.CompiledKernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the model and the kernels are the same; then neither the candidates are typed nor their times predicted."""
    sizes, ranked = {"M": 4096, "N": 4096}, []
    choices = type(scale.tuned.choices) if scale.tuned is not None else None
    assert scale.tuned is not None and choices is not None
    first = scale.tuned.chosen(sizes, H200)
    rank = choices.possible
    monkeypatch.setattr(choices, "possible", lambda self, *given: ranked.append(given) or rank(self, *given))

    def again(*more: pipec.CompiledKernel) -> Chosen:
        made = pipec.choose(
            kernels["rows"], kernels["direct"], (kernels["add"], kernels["finish"]), *more, scratch=["partial"], name="scale"
        )
        assert made.tuned is not None
        return made.tuned.chosen(sizes, H200)

    assert again() == first and not ranked
    again(kernels["rows"])
    assert len(ranked) == 1
    monkeypatch.setattr(store, "_model", lambda: "another constant")
    assert again() == first and len(ranked) == 2


def test_kernels_of_the_library_are_compiled_when_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_one = library.compile
    monkeypatch.setattr(library, "compile", lambda path, **how: compiled.append(path.stem) or compile_one(path, **how))
    gemm = library._gemm.__wrapped__("sm_100a", "bf16")
    assert compiled == ["gemm"] and gemm.tuned is not None
    other = next(one for one in gemm.tuned.choices.candidates if one.constants["kernel"] == "gemm_clc")
    running = gemm.tuned.of(other)
    assert running.name == "gemm_clc" and ".entry gemm_clc" in running.ptx and gemm.tuned.of(other) is running


def test_a_call_looks_the_choice_up_once(scale: pipec.CompiledKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = scale.tuned
    assert tuned is not None
    asked: list[str] = []
    monkeypatch.setattr(tuned, "_gpu_of", lambda arguments, device: asked.append(device) or Gpu("pretended", 132))
    x, y = arrays(512, 64)
    variants = [tuned.variant((x, y, 1.0), "cuda") for _ in range(3)]
    assert asked == ["cuda"] and variants[0] is variants[1] is variants[2]


def test_time_is_predicted_for_what_would_be_chosen(scale: pipec.CompiledKernel) -> None:
    assert scale.tuned is not None
    sizes = {"M": 4096, "N": 4096}
    name = dict(scale.tuned.choices.choose(sizes).values)["kernel"]
    assert scale.predict(**sizes).kernel == name
    in_turn = scale.tuned.of(named(scale, "kernel=add ROWS=16"))
    assert isinstance(in_turn, InTurn)
    predicted = in_turn.predict(**sizes)
    assert predicted.kernel == "add, then finish" and predicted.seconds > 2 * 4096 * 4096 * 4 / 4.8e12
    with pytest.raises(pipec.CompileError, match="E0289"):
        scale.predict(M=3)


def test_arrays_in_whose_memory_no_zeros_are_made_go_to_the_first(scale: pipec.CompiledKernel) -> None:
    class Exported:
        """As arrays of other libraries are: with a shape, and memory that DLPack describes."""

        def __init__(self, array: np.ndarray) -> None:
            self.shape, self._array = array.shape, array
            self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__

    assert scale.tuned is not None
    x, y = arrays(40, 64)
    result = scale.tuned.of(named(scale, "kernel=add ROWS=16"))(Exported(x), Exported(y), 2.0, device="sim")
    assert result.kernel == "rows" and np.array_equal(y, 2 * x)


class Recorded:
    """One of the kernels of an InTurn that notes what it is called with; `launch` stands in for its launch that is repeated."""

    def __init__(self, kernel: pipec.CompiledKernel, called: list[tuple[str, tuple[object, ...]]]) -> None:
        self.interface, self.name, self._called = kernel.interface, kernel.interface.name, called
        self.again = again.Again("cuda", self.launch, 1)

    def __call__(self, *arguments: object, device: str, stream: object, options: object = None) -> str:
        self._called.append((self.name, arguments))
        return self.name

    def launch(self, arguments: tuple[Any, ...], stream: object) -> str | None:
        if arguments[0].shape != (40, 64):
            return None
        self._called.append((f"{self.name} again", arguments))
        return f"{self.name} again"


class OfTorch:
    """A tensor beside which zeros can be created."""

    is_cuda = False

    def __init__(self, *shape: int, dtype: str = "float32") -> None:
        self.shape, self.dtype = shape, dtype

    def new_zeros(self, shape: tuple[int, ...], dtype: str) -> "OfTorch":
        return OfTorch(*shape, dtype=dtype)


def test_kernels_in_turn_are_repeated_with_scratch_of_the_call(
    scale: pipec.CompiledKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(float32="float32"))
    assert scale.tuned is not None
    made = scale.tuned.of(named(scale, "kernel=add ROWS=16"))
    assert isinstance(made, InTurn)
    called: list[tuple[str, tuple[Any, ...]]] = []
    steps: Any = tuple(Recorded(step, called) for step in made._steps)
    in_turn = InTurn(steps, {one.name: one for one in made._scratch}, made._otherwise)
    x, y = OfTorch(40, 64), OfTorch(40, 64)
    in_turn(x, y, 2.0, device="cuda")
    repeated = in_turn.again
    assert repeated is not None and repeated.device == "cuda"
    other = OfTorch(40, 64), OfTorch(40, 64), 3.0
    assert repeated.launch(other, None) == "finish"
    (_, first), (_, second), (name, third), (last, fourth) = called
    assert (name, last) == ("add again", "finish")
    # Each call has sums of its own, of the same shape, and the same for both kernels.
    assert [len(one) for one in (first, second)] == [len(one) for one in (third, fourth)]
    sums = next(one for one in third if isinstance(one, OfTorch) and one not in other)
    assert sums in fourth and sums not in first and sums.shape == (40, 64)
    assert {one for one in (*third, *fourth) if one is not sums} <= {*other}
    called.clear()
    for unlike in ((OfTorch(48, 64), OfTorch(48, 64), 1.0), other[:2], (np.zeros((40, 64)), other[1], 1.0)):
        assert repeated.launch(unlike, None) is None
    assert not called
    in_turn(x, alpha=1.0, y=y, device="cuda")
    assert in_turn.again is None  # not in order


# -------------------------------------------------------------------------------------------------------------- refusals

OTHER = DIRECT.replace("kernel direct", "kernel other")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (OTHER.replace("alpha", "beta"), "`beta` is none of `rows`"),
        (OTHER.replace(", alpha: f32", "").replace("alpha * tile", "tile"), "it has no parameter `alpha`"),
        (OTHER.replace("y: tensor[f32, M, N]", "y: tensor[bf16, M, N]").replace("alpha * tile", "cast[bf16](alpha * tile)"), "bf16"),
        (OTHER.replace("y: tensor[f32, M, N]", "y: tensor[f32, M, K]"), "`y: f32[M, K]`, not `y: f32[M, N]`"),
        (OTHER.replace("x: tensor[f32, M, N], y: tensor[f32, M, N]", "y: tensor[f32, M, N], x: tensor[f32, M, N]"), "order y, x, alpha"),
        (OTHER.replace("alpha * tile)", 'alpha * tile, reduce="add")'), "it reads and writes `y`, which `rows` only writes"),
        (OTHER.replace("arch: sm_90a", "arch: sm_100a"), "compiled for sm_100a, not sm_90a"),
        (
            OTHER.replace("alpha: f32)", "alpha: f32, partial: tensor[f32, M, P])").replace(
                "alpha * tile", "alpha * tile + load(partial[0, 0], 16, 32)"
            ),
            "`P` of its parameter `partial`",
        ),
    ],
)  # fmt: skip
def test_kernels_that_are_called_otherwise_are_refused(
    text: str, problem: str, kernels: Mapping[str, pipec.CompiledKernel]
) -> None:
    with pytest.raises(pipec.CompileError) as refused:
        pipec.choose(kernels["rows"], pipec.kernel(text), scratch=["partial"])
    (diagnostic,) = refused.value.diagnostics
    assert diagnostic.code == "E0280" and problem in diagnostic.title, diagnostic.title


def test_a_parameter_to_work_in_has_to_be_named(kernels: Mapping[str, pipec.CompiledKernel]) -> None:
    with pytest.raises(pipec.CompileError, match=r'E0280(.|\n)*`scratch=\["partial"\]`'):
        pipec.choose(kernels["rows"], (kernels["add"], kernels["finish"]))


@pytest.mark.parametrize("wrong", [(), ("rows.pipe",), ((),), (None,)])
def test_only_kernels_can_be_chosen_among(wrong: tuple[object, ...]) -> None:
    with pytest.raises(pipec.CompileError, match="E1021"):
        pipec.choose(*wrong)  # type: ignore[arg-type]


def test_kernels_of_one_name_are_distinguished() -> None:
    tiles = [pipec.compile(ROWS, constants={"BM": rows})["rows"] for rows in (32, 64)]
    tuned = pipec.choose(*tiles).tuned
    assert tuned is not None and [str(one) for one in tuned.choices.candidates] == ["kernel=rows", "kernel=rows.2"]
    assert tuned.label == "rows or rows.2"


# ---------------------------------------------------------------------------------------------------------------- library


def test_the_library_chooses_kernels_for_what_they_are_for() -> None:
    tuned = library.gemm().tuned
    assert tuned is not None and str(tuned.choices.file) == "kernel=gemm_sm90"

    def kernel(m: int, n: int, k: int) -> object:
        chosen = tuned.choices.choose({"M": m, "N": n, "K": k}, 132)
        assert not tuned.choices.refusal(chosen)
        return chosen.constants["kernel"]

    assert kernel(8, 8192, 28672) == kernel(1, 28672, 4096) == "gemm_sm90_narrow"
    assert kernel(256, 256, 16384) == kernel(128, 128, 65536) == "add_products"
    assert kernel(8192, 8192, 8192) not in ("gemm_sm90", "gemm_sm90_narrow", "add_products")


def test_the_library_has_kernels_for_blackwell() -> None:
    """Nothing is measured there. Pairs of CTAs load half of B each: they are taken where the GPU is full, but not for few tiles."""
    gemm = library.gemm("sm_100a")
    assert gemm.tuned is not None and gemm.arch == "sm_100a"
    offer = gemm.tuned.choices

    def chosen(m: int, n: int, k: int) -> str:
        found = offer.choose({"M": m, "N": n, "K": k}, 148)
        assert not offer.refusal(found)
        return str(found.constants["kernel"])

    assert chosen(8192, 8192, 8192).startswith("gemm_2cta") and not chosen(512, 512, 4096).startswith("gemm_2cta")
    a, b = (np.random.default_rng(seed).standard_normal((128, 64)).astype(ml_dtypes.bfloat16) for seed in (1, 2))
    d = np.zeros((128, 128), ml_dtypes.bfloat16)
    gemm(a, b, d)
    assert np.allclose(d.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32).T, rtol=0.01, atol=0.1)


@pytest.mark.parametrize(("present", "arch"), [("sm_100a", "sm_100a"), ("sm_90a", "sm_90a"), ("", "sm_90a")])
def test_the_library_is_for_the_gpu_that_there_is(present: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "gpu_for", lambda asked, arguments, device: H200 if asked == present else None)
    assert library.gemm().arch == arch


@pytest.mark.parametrize("wrong", [{"arch": "sm_80"}, {"dtype": "f32"}, {"dtype": None}, {"arch": "sm_100a", "dtype": "f16"}])
def test_the_library_says_what_it_has(wrong: dict) -> None:
    with pytest.raises(pipec.CompileError, match="E1021(.|\n)*(sm_90a or sm_100a|bf16 or f16 or e4m3|bf16)"):
        library.gemm(**wrong)


# -------------------------------------------------------------------------------------------------- what was launched last


class Again:
    """Stands in for pipec.runtime.again.Again."""

    def __init__(self, device: str = "cuda") -> None:
        self.device, self.calls = device, 0

    def launch(self, arguments: tuple[object, ...], stream: object) -> object:
        self.calls += 1
        return "again" if len(arguments) == 3 else None


def test_a_launch_like_the_last_one_asks_for_no_choice(scale: pipec.CompiledKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = scale.tuned
    assert tuned is not None
    x, y = arrays(40, 64)
    variant = tuned.of(named(scale, "kernel=rows BM=32"))
    variant._launcher.recent.last = again = Again("sim")  # type: ignore[assignment]
    monkeypatch.setattr(tuned, "variant", lambda arguments, device: variant)
    monkeypatch.setattr(type(variant._launcher), "__call__", lambda *_, **__: "launched")
    assert scale(x, y, 1.0, device="sim") == "again" and again.calls == 1  # by the variant, which knows its last launch
    assert tuned.recent.last is again
    monkeypatch.setattr(tuned, "variant", None)  # is not asked any more
    assert scale(x, y, 1.0, device="sim") == "again" and again.calls == 2
    outcome = best(tuned.choices, {"M": 40, "N": 64}, FakeBench({}))
    tuned.remember(outcome.row(tuned.label))
    assert tuned.recent.last is None  # another candidate may be the fastest now
