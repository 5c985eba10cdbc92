"""A GEMM whose multiplying role has four warps, of which one elected thread issues each MMA.

Whether the accumulator was written is loaded from shared memory.
"""

ELECTED_MMA = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(1)
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 16], b=tile[bf16, 8, 16]), stages=1)
    output = OutputTilePipeline(tmem[f32, 128, 8], stages=1)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, 16)):
            with input.produce() as s:
                tma.load(s.a, a[0, k * 16])
                tma.load(s.b, b[0, k * 16])
    role multiply(warps=4) consumes input produces output:
        with output.produce() as acc:
            for k in range(ceildiv(K, 16)):
                with input.consume() as s:
                    with elect():
                        mma(acc, s.a, s.b)
    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[0, 0], acc)
"""
