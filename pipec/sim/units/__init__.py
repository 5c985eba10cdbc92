"""Pure models of the asynchronous hardware units of sm_100a: mbarrier, TMA, tensor memory, tcgen05.

Nothing in this package knows the simulator core, PTX text or the compiler.  The descriptor and layout readings here are
deliberately independent of the emitter's: the two meet only in tests, so that a shared mistake needs two authors.
"""
