"""Programs of a grid that wait for each other: flags, tickets, locks, barriers; counts by atomics."""

import numpy as np
import triton
import triton.language as tl

from .programs import integers, normal, program, wide, zeros


@triton.jit
def look_back_kernel(x, y, flags, partial, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    """A prefix sum over the whole grid: each program waits for the one before it."""
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    s = tl.cumsum(v, 0)
    before = 0
    if pid > 0:
        if FAULT != "no wait":
            if FAULT == "relaxed":
                while tl.atomic_add(flags + pid - 1, 0, sem="relaxed") == 0:
                    pass
            else:
                while tl.atomic_add(flags + pid - 1, 0, sem="acquire") == 0:
                    pass
        before = tl.load(partial + pid - 1)
    tl.store(partial + pid, before + tl.sum(v))
    if FAULT == "released first":
        tl.atomic_xchg(flags + pid, 1, sem="release")
        tl.store(partial + pid, before + tl.sum(v))
    elif FAULT == "at CTA scope":
        tl.atomic_xchg(flags + pid, 1, sem="release", scope="cta")
    elif FAULT != "no flag":
        tl.atomic_xchg(flags + pid, 1, sem="release")
    tl.store(y + i, before + s, mask=i < n)


@program({"no wait": "race", "relaxed": "race", "no flag": "deadlock hang", "at CTA scope": "race"})
def look_back(fault):
    n = 700
    x, y, flags, partial = integers(0, 100, n), zeros(n, dtype=np.int32), zeros(8, dtype=np.int32), zeros(8, dtype=np.int32)
    look_back_kernel[(6,)](x, y, flags, partial, n, BLOCK=128, FAULT=fault)
    return [(y, np.cumsum(np.asarray(x)), 0)]


@triton.jit
def align_experts_kernel(ids, counts, order, ends, n, E: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    """Tokens sorted by expert: counted by all programs, placed by the last that counts."""
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    e = tl.load(ids + i, mask=i < n, other=0)
    h = tl.histogram(e, E, mask=i < n)
    tl.atomic_add(counts + tl.arange(0, E), h, sem="relaxed" if FAULT == "relaxed" else "acq_rel")
    if FAULT != "no barrier":
        tl.debug_barrier()
    done = tl.atomic_add(counts + E, 1, sem="relaxed" if FAULT == "relaxed" else "acq_rel")
    if done == tl.num_programs(0) - 1:
        if FAULT != "no barrier":
            tl.debug_barrier()
        total = tl.load(counts + tl.arange(0, E))
        last = tl.cumsum(total, 0)
        tl.store(ends + tl.arange(0, E), last)


@program({"relaxed": "race"})
def align_experts(fault):
    n, E = 500, 8
    ids, counts, ends = integers(0, E, n), zeros(E + 1, dtype=np.int32), zeros(E, dtype=np.int32)
    align_experts_kernel[(4,)](ids, counts, zeros(1), ends, n, E=E, BLOCK=128, FAULT=fault)
    return [(ends, np.cumsum(np.bincount(np.asarray(ids), minlength=E)), 0)]


@triton.jit
def ticket_kernel(total, lock, n, FAULT: tl.constexpr):
    """A ticket lock around a plain sum."""
    if FAULT != "no lock":
        ticket = tl.atomic_add(lock, 1)
        while tl.atomic_add(lock + 1, 0, sem="relaxed" if FAULT == "relaxed wait" else "acquire") != ticket:
            pass
        tl.debug_barrier()
    i = tl.arange(0, 128)
    tl.store(total + i, tl.load(total + i, mask=i < n) + tl.program_id(0), mask=i < n)
    if FAULT != "no barrier":
        tl.debug_barrier()
    if FAULT == "relaxed release":
        tl.atomic_add(lock + 1, 1, sem="relaxed")
    elif FAULT != "kept":
        tl.atomic_add(lock + 1, 1, sem="release")


@program({"no lock": "race", "relaxed release": "race", "kept": "deadlock hang", "relaxed wait": "race"})
def ticket_lock(fault):
    total, lock = zeros(100, dtype=np.int32), zeros(2, dtype=np.int32)
    ticket_kernel[(6,)](total, lock, 100, FAULT=fault)
    return [(total, np.full(100, 15), 0)]


@triton.jit
def spin_kernel(total, lock, FAULT: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if FAULT == "volatile":
        v = tl.load(total)
        tl.store(total, v + 1.0)
        tl.store(lock, 0)
    else:
        tl.store(total, tl.load(total) + 1.0)
        tl.debug_barrier()
        tl.atomic_xchg(lock, 0)


@program({"volatile": "race"})
def spin_lock(fault):
    total, lock = zeros(1), zeros(1, dtype=np.int32)
    spin_kernel[(9,)](total, lock, FAULT=fault)
    return [(total, np.full(1, 9.0), 0)]


@triton.jit
def quantise_kernel(x, q, scale, most, rows, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    """Rows to int8 with a scale each, the greatest of all by an atomic maximum."""
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        i = tl.arange(0, BLOCK)
        v = tl.load(x + row * n + i, mask=i < n, other=0.0)
        s = tl.max(tl.abs(v)) / 127
        tl.store(q + row * n + i, tl.extra.cuda.libdevice.rint(v / s).to(tl.int8), mask=i < n)
        tl.store(scale + row, s)
        if FAULT == "plain maximum":
            if s > tl.load(most):
                tl.store(most, s)
        else:
            tl.atomic_max(most, s)


@program({"plain maximum": "race"})
def quantised_rows(fault):
    x, q, scale, most = normal(6, 77), zeros(6, 77, dtype=np.int8), zeros(6), zeros(1)
    quantise_kernel[(2,)](x, q, scale, most, 6, 77, BLOCK=128, FAULT=fault)
    s = np.abs(wide(x)).max(1) / 127
    return [(scale, s, 1e-6), (most, s.max()[None], 1e-6), (q, np.rint(wide(x) / s[:, None]), 1 / 100)]


@triton.jit
def grid_barrier_kernel(x, y, counter, n, ROUNDS: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    """A stencil in rounds, all programs between two arrays, a barrier over the grid by an atomic counter."""
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    for r in tl.static_range(ROUNDS):
        source = x if r % 2 == 0 else y
        target = y if r % 2 == 0 else x
        left = tl.load(source + (i + n - 1) % n)
        right = tl.load(source + (i + 1) % n)
        tl.store(target + i, left + right)
        if FAULT != "no CTA barrier":
            tl.debug_barrier()
        if FAULT != "no grid barrier":
            tl.atomic_add(counter, 1, sem="relaxed" if FAULT == "relaxed" else "release")
            while tl.atomic_add(counter, 0, sem="acquire") < tl.num_programs(0) * (r + 1):
                pass
            if FAULT != "no CTA barrier":
                tl.debug_barrier()


@program({"no grid barrier": "race", "relaxed": "race"})
def grid_barrier(fault):
    n = 512
    x, y, counter = integers(0, 10, n), zeros(n, dtype=np.int32), zeros(1, dtype=np.int32)
    v = np.asarray(x).copy()
    grid_barrier_kernel[(4,)](x, y, counter, n, ROUNDS=4, BLOCK=128, FAULT=fault, launch_cooperative_grid=True)
    for _ in range(4):
        v = np.roll(v, 1) + np.roll(v, -1)
    return [(x, v, 0)]
