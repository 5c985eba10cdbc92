"""Instructions as machine code: made from what the table of semantics computes, by LLVM, one function for each form."""

LANES = 32  # of a warp
