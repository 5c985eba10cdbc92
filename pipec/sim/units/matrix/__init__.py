"""Matrix multiplication on registers: warp and warpgroup MMAs."""
