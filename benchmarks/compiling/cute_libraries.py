"""Kernels of libraries in CuTe DSL for sm_100a, compiled without a GPU: the cubin goes to standard output.

    python benchmarks/compiling/cute_libraries.py attention HEAD full|causal|lengths > FILE
    python benchmarks/compiling/cute_libraries.py gemm bf16|mxfp8|nvfp4 1|2 COLUMNS > FILE

The attention is that of flash-attn-4, the GEMM (persistent, of one CTA or of pairs) that of quack-kernels, both from PyPI.
"""

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ |= {"CUTE_DSL_ARCH": "sm_100a", "QUACK_ARCH": "100"}

import cutlass
from cutlass import cute

MULTIPROCESSORS = 148


class Hardware:
    """What a B200 would answer: the grid depends on it, the code does not."""

    def __init__(self, *_: object) -> None:
        pass

    def get_device_multiprocessor_count(self) -> int:
        return MULTIPROCESSORS

    def get_max_active_clusters(self, size: int, *_: object) -> int:
        return MULTIPROCESSORS // size


def attention(folder: str, head: int, what: str) -> None:
    from flash_attn.cute.flash_fwd_sm100 import FlashAttentionForwardSm100

    causal, lengths = what == "causal", what == "lengths"
    kernel = FlashAttentionForwardSm100(
        head, head, is_causal=causal, is_varlen_q=lengths, is_static_persistent=not causal and not lengths
    )

    def tensor(dtype: Any, *shape: Any, align: int = 16) -> Any:
        order = tuple(reversed(range(len(shape))))
        return cute.runtime.make_fake_compact_tensor(dtype, shape, stride_order=order, assumed_align=align)

    batch, queries, keys, heads = ([] if lengths else [cute.sym_int()]), *(cute.sym_int() for _ in range(3))
    q, k, v, out = (tensor(cutlass.BFloat16, *batch, size, heads, head) for size in (queries, keys, keys, queries))
    sums = tensor(cutlass.Float32, *batch, heads, queries)
    starts = [tensor(cutlass.Int32, cute.sym_int(), align=4) if lengths else None for _ in range(2)]
    stream = cute.runtime.make_fake_stream()
    cute.compile(kernel, q, k, v, out, sums, cutlass.Float32(1.0), *starts, stream=stream, options=_options(folder))


def gemm(folder: str, kind: str, ctas: int, columns: int) -> None:
    from quack import gemm as library

    compiled = cute.compile

    class Compile:
        """The library's call, for this architecture, and with the cubin kept."""

        def __call__(self, *arguments: object, **others: object) -> object:
            return compiled(*arguments, **(others | {"options": _options(folder)}))

        def __getattr__(self, name: str) -> object:
            return getattr(compiled, name)

    element, factor, block = {
        "bf16": (cutlass.BFloat16, None, None),
        "mxfp8": (cutlass.Float8E4M3FN, cutlass.Float8E8M0FNU, 32),
        "nvfp4": (cutlass.Float4E2M1FN, cutlass.Float8E4M3FN, 16),
    }[kind]
    nothing = dict.fromkeys(("c_dtype", "c_major", "rowvec_dtype", "colvec_dtype", "num_warps"))
    switches = "pingpong is_dynamic_persistent add_to_output varlen_m varlen_k gather_A use_tma_gather has_batch_idx_permute"
    numbers = dict.fromkeys(("colvec_ndim", "alpha_mode", "beta_mode", "sr_seed_mode"), 0)
    cute.compile = Compile()
    library._compile_gemm.__wrapped__(
        a_dtype=element,
        b_dtype=element,
        d_dtype=cutlass.BFloat16,
        a_major="k",
        b_major="k",
        d_major="n",
        tile_shape_mn=(128 * ctas, columns),
        cluster_shape_mnk=(ctas, 1, 1),
        persistent=True,
        concat_layout=None,
        device_capacity=(10, 0),
        rounding_mode=library.RoundingMode.RN,
        sf_dtype=factor,
        sf_vec_size=block,
        **nothing,
        **dict.fromkeys(switches.split(), False),
        **numbers,
    )


def _options(folder: str) -> str:
    return f"--gpu-arch=sm_100a --keep-cubin --dump-dir={folder}"


def main() -> None:
    cutlass.utils.HardwareInfo = Hardware
    what, *given = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(sys.stderr):
            if what == "attention":
                attention(folder, int(given[0]), given[1])
            else:
                gemm(folder, given[0], int(given[1]), int(given[2]))
        (found,) = Path(folder).rglob("*.cubin")
        sys.stdout.buffer.write(found.read_bytes())


if __name__ == "__main__":
    main()
