"""Rows of the instruction table: global memory accesses by threads, and the watchdog's instructions."""

from pipec.isa.dtypes import DTYPES
from pipec.isa.instruction import GLOBAL, I1, I16, I32, I64, SHARED, VOID, Instruction, intrinsic
from pipec.isa.reductions import ALLOWED, BY_INTEGERS, red_type, red_vector


def guarded_memory() -> list[Instruction]:
    """Predicated global accesses: no branch, so the warp stays converged. Loads return zero if the predicate is false."""
    rows = []
    registers = {8: ("h", "b8", I16), 16: ("h", "b16", I16), 32: ("r", "b32", I32), 64: ("l", "b64", I64)}
    for bits, (constraint, suffix, type_) in registers.items():
        wide = "b16" if bits == 8 else suffix
        load = f"mov.{wide} $0, 0;\\0A\\09@$2 ld.global.{suffix} $0, [$1];"
        rows.append(Instruction(f"load.global.{bits}", load, type_, (GLOBAL, I1), f"ld.global.{suffix}", "thread", "9.7.9.8",
                                constraints=f"=&{constraint},l,b"))  # fmt: skip
        store = f"@$2 st.global.{suffix} [$0], $1;"
        rows.append(Instruction(f"store.global.{bits}", store, VOID, (GLOBAL, type_, I1), f"st.global.{suffix}", "thread", "9.7.9.12",
                                constraints=f"l,{constraint},b"))  # fmt: skip
    # Hides from LLVM that the value is the same each time: derived values are recomputed at each use, and occupy no register in between.
    rows.append(Instruction("fresh", "mov.b32 $0, $1;", I32, (I32,), "mov.b32", "thread", "9.7.9.1", constraints="=r,r"))
    for bits in (32, 64):
        constraint, suffix, type_ = registers[bits]
        rows.append(Instruction(f"store.shared.if.{bits}", f"@$2 st.shared.{suffix} [$0], $1;", VOID, (SHARED, type_, I1),
                                f"st.shared.{suffix}", "thread", "9.7.9.12", constraints=f"r,{constraint},b"))  # fmt: skip
    rows.append(Instruction("store.global.v4", "@$5 st.global.v4.b32 [$0], {$1, $2, $3, $4};", VOID,
                            (GLOBAL, I32, I32, I32, I32, I1), "st.global.v4.b32", "thread", "9.7.9.12",
                            constraints="l,r,r,r,r,b"))  # fmt: skip
    loads = "mov.b32 $0, 0;\\0A\\09mov.b32 $1, 0;\\0A\\09mov.b32 $2, 0;\\0A\\09mov.b32 $3, 0;\\0A\\09"
    rows.append(Instruction("load.global.v4", loads + "@$5 ld.global.v4.b32 {$0, $1, $2, $3}, [$4];", "{ i32, i32, i32, i32 }",
                            (GLOBAL, I1), "ld.global.v4.b32", "thread", "9.7.9.8", constraints="=&r,=&r,=&r,=&r,l,b"))  # fmt: skip
    return rows


def ordered_memory() -> list[Instruction]:
    """Counters in global memory that blocks wait for (PTX ISA 8, memory consistency)."""
    load, store = "ld.acquire.gpu.global.b32", "st.release.gpu.global.b32"
    return [
        Instruction("load.acquire.gpu", f"{load} $0, [$1];", I32, (GLOBAL,), load, "thread", "9.7.9.8", constraints="=r,l"),
        Instruction("store.release.gpu", f"{store} [$0], $1;", VOID, (GLOBAL, I32), store, "thread", "9.7.9.12", constraints="l,r"),
    ]  # fmt: skip


def reductions() -> list[Instruction]:
    """Predicated reductions in global memory, of one element or of 16 bytes."""
    rows = []
    registers = {16: ("h", I16), 32: ("r", I32), 64: ("l", I64)}
    for operation, dtypes in ALLOWED["direct"].items():
        for dtype in dtypes:
            if (operation, dtype) in BY_INTEGERS:
                continue
            constraint, type_ = registers[DTYPES[dtype].bits]
            spelling = f"red.relaxed.gpu.global.{red_type(operation, dtype)}"
            rows.append(Instruction(f"reduce.global.{operation}.{dtype}", f"@$2 {spelling} [$0], $1;", VOID, (GLOBAL, type_, I1),
                                    spelling, "thread", "9.7.13.7", constraints=f"l,{constraint},b"))  # fmt: skip
            vector = red_vector(operation, dtype)
            if vector is not None:
                spelling = f"red.relaxed.gpu.global.{vector}"
                rows.append(Instruction(f"reduce.global.{operation}.{dtype}.v4", f"@$5 {spelling} [$0], {{$1, $2, $3, $4}};", VOID,
                                        (GLOBAL, I32, I32, I32, I32, I1), spelling, "thread", "9.7.13.7",
                                        constraints="l,r,r,r,r,b"))  # fmt: skip
    return rows


def watchdog() -> list[Instruction]:
    """The instructions of a bounded wait: a clock, the barrier's state, words for the host, and a trap.

    Templates where LLVM would drop an ordering or a scope, or move a clock read.
    """
    return [
        intrinsic("mbarrier.try_wait.parity.limit.cluster", "mbarrier.try.wait.parity.tl.scope.cluster.space.cta", I1,
                   (SHARED, I32, I32), "mbarrier.try_wait.parity.acquire.cluster.shared.b64", "thread", "9.7.13.15"),
        intrinsic("mbarrier.try_wait.parity.limit", "mbarrier.try.wait.parity.tl.scope.cta.space.cta", I1, (SHARED, I32, I32),
                   "mbarrier.try_wait.parity.shared.b64", "thread", "9.7.13.15"),
        Instruction("clock", "mov.u64 $0, %clock64;", I64, (), "mov.u64", "thread", "10.20", constraints="=l"),
        Instruction("globaltimer", "mov.u64 $0, %globaltimer;", I64, (), "mov.u64", "thread", "10.23", constraints="=l"),
        # A live barrier cannot be loaded: its word reads as zero on hardware. An arrival with count zero changes nothing and returns its
        # upper half.
        Instruction("mbarrier.look", "{ .reg .b32 none;\\0A\\09mov.b32 none, 0;\\0A\\09mbarrier.arrive.shared::cta.b64 $0, [$1], none; }",
                    I64, (SHARED,), "mbarrier.arrive.shared::cta.b64", "thread", "9.7.13.15.13", constraints="=l,r"),
        Instruction("activemask", "activemask.b32 $0;", I32, (), "activemask.b32", "thread", "9.7.13.11", constraints="=r"),
        Instruction("count.global", "atom.relaxed.gpu.global.add.u32 $0, [$1], 1;", I32, (GLOBAL,),
                    "atom.relaxed.gpu.global.add.u32", "thread", "9.7.13.6", constraints="=r,l"),
        Instruction("store.system", "st.relaxed.sys.global.u32 [$0], $1;", VOID, (GLOBAL, I32), "st.relaxed.sys.global.u32", "thread",
                    "9.7.9.12", constraints="l,r"),
        Instruction("fence.system", "fence.acq_rel.sys;", VOID, (), "fence.acq_rel.sys", "thread", "9.7.13.4", constraints=""),
        Instruction("nanosleep", "nanosleep.u32 $0;", VOID, (I32,), "nanosleep.u32", "thread", "9.7.20.2", constraints="r"),
        Instruction("trap", "trap;", VOID, (), "trap", "thread", "9.7.20.4", constraints=""),
    ]  # fmt: skip
