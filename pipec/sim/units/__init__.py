"""Pure models of the asynchronous hardware units of sm_100a (and of Hopper's wgmma).

Nothing in this package knows the simulator core, PTX text or the compiler.  The descriptor and layout readings here are
deliberately independent of the emitter's: the two meet only in tests, so that a shared mistake needs two authors.

    errors        UnitError, the only exception a unit raises for bad input; alignment: whole multiples
    limits        how many threads, registers and bytes there are
    protocols     what the units ask of shared and global memory
    mbarrier      the barrier state machine
    swizzle       XOR patterns of shared memory, used by copies and by tcgen05.operands
    numbers       number formats: bit patterns, exact values, significands and exponents; numerics: what one MMA
                  instruction adds up and how it rounds
    copies        tensormap: the tensor map and its encode rules; mapbits: maps as 128 bytes; im2col: im2col maps and the pixels
                  that a copy walks; tma: tiled loads and stores, gather4 / scatter4; reductions
    tcgen05       tensor memory, descriptors, mma, cp
    matrix        MMA on registers: wgmma, Hopper's warpgroup MMA; mma and wmma, those of a warp; sparsity: a sparse operand A

Not modelled, and refused with "unsupported" or "illegal" where a program can ask for it: stores through interleaved tensor maps,
stores of packed sub-byte types, sparse tcgen05 MMA of 4-bit kinds, K = 96, base offsets of swizzled tcgen05 descriptors, block-scaled
pairs with M = 128.
"""
