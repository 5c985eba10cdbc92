"""Small kernels for the tests of the command line and of the Python interface."""

SCALE = '''\
kernel scale[BM: int = 16, BN: int = 64](x: tensor[f32, M, N], y: tensor[f32, M, N], alpha: f32):
    """Y = alpha * X.

    numpy: y = alpha * x
    shapes: M=16, N=64, alpha=2
    """
    grid(ceildiv(M, BM), ceildiv(N, BN))
    ring = InputTilePipeline(TilePayload(x=tile[f32, BM, BN]), stages=1)

    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[block.x * BM, block.y * BN])

    role compute(warps=4) consumes ring:
        with ring.consume() as s:
            store.direct(y[block.x * BM, block.y * BN], s.x * alpha)
'''

# Two mistakes that have nothing to do with each other.
WRONG = SCALE.replace("s.x * alpha", "s.x * beta").replace("produces ring", "produces rong")
