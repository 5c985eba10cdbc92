"""Matrix multiplication on registers: of a warp and of a warpgroup."""
