"""Instructions as machine code: LLVM compiles what the semantics table computes, one function per form."""

LANES = 32  # of a warp
