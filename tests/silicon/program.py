"""What a small PTX program is: its kernel, its arguments and its launch; and the pieces of PTX that many of them share.

A program is run with the same arguments by the simulator and by a GPU, and every output is compared. Its parameters are p0, p1, ...:
64-bit pointers for buffers, 128-byte tensor maps for maps. Registers of the pools below are declared in every kernel.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pipec.sim import Im2colMap, TensorMap

TARGET = "sm_90a"
_HEADER = f".version 8.6\n.target {TARGET}\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
_POOLS = ".reg .b32 %r<64>; .reg .b64 %rd<64>; .reg .pred %p<32>; .reg .b16 %h<32>; .reg .f32 %f<32>; .reg .f64 %fd<8>; "
_POOLS += ".reg .b128 %q<4>;"


@dataclass(frozen=True)
class Buffer:
    """A pointer to `data`; `output`: the kernel writes it, and what it holds afterwards is compared; `scratch`: written, not compared."""

    data: np.ndarray
    output: bool = False
    scratch: bool = False


@dataclass(frozen=True)
class Map:
    """A tensor map over `data`; `output`: a kernel stores through it."""

    map: TensorMap | Im2colMap
    data: np.ndarray
    output: bool = False


@dataclass(frozen=True)
class Program:
    """One kernel `k` with its launch; `shared` is the dynamic shared memory in bytes, `threads` those of a CTA.

    `body` is the text inside the kernel's braces; it may begin with declarations of its own.
    """

    name: str
    body: str
    arguments: tuple[Buffer | Map, ...]
    threads: int = 128
    grid: tuple[int, int, int] = (1, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared: int = 0
    directives: str = field(default="")

    @property
    def ptx(self) -> str:
        parameters = ", ".join(
            f".param .u64 p{i}" if isinstance(argument, Buffer) else f".param .align 64 .b8 p{i}[128]"
            for i, argument in enumerate(self.arguments)
        )
        return (
            f"{_HEADER}.visible .entry k({parameters}) .reqntid {self.threads}, 1, 1 {self.directives}\n{{\n{_POOLS}\n"
            f"{self.body}\nret;\n}}\n"
        )

    def fresh(self) -> tuple[Buffer | Map, ...]:
        """The arguments with arrays of their own, so that a run does not change the program."""
        return tuple(
            Buffer(argument.data.copy(), argument.output, argument.scratch)
            if isinstance(argument, Buffer)
            else Map(argument.map, argument.data.copy(), argument.output)
            for argument in self.arguments
        )

    @property
    def digest(self) -> str:
        """Names text, launch and inputs: an expected result is one of exactly these."""
        state = hashlib.sha256(f"{self.ptx}|{self.grid}|{self.cluster}|{self.shared}".encode())
        for argument in self.arguments:
            state.update(argument.data.tobytes())
            if isinstance(argument, Map):
                # Fields that maps got after the recording, where they say what was meant before.
                state.update(repr(argument.map).replace(", wide='no'", "").encode())
        return state.hexdigest()[:16]


def outputs(arguments: tuple[Buffer | Map, ...]) -> np.ndarray:
    """The bytes of all outputs behind one another."""
    return np.concatenate([np.ascontiguousarray(a.data).reshape(-1).view(np.uint8) for a in arguments if a.output])


# ---- pieces of PTX


def loop_over_words(count: int, threads: int, body: str) -> str:
    """`body` for each of `count` bytes in words of 4, spread over the threads; %i is the byte offset."""
    return f"""{{ .reg .b32 %i, %v, %s; .reg .b64 %g; .reg .pred %go;
  mov.u32 %i, %tid.x; shl.b32 %i, %i, 2;
again: setp.ge.u32 %go, %i, {count}; @%go bra done;
  {body}
  add.u32 %i, %i, {4 * threads}; bra again;
done: }}
"""


def poison(count: int, threads: int = 128, offset: int = 0) -> str:
    """Fills shared memory with A5 bytes, so that a dump shows what was written and what was not; fenced for the async proxy."""
    store = f"mov.u32 %s, smem; add.u32 %s, %s, %i; mov.u32 %v, 0xA5A5A5A5; st.shared.b32 [%s+{offset}], %v;"
    return loop_over_words(count, threads, store) + "fence.proxy.async; bar.sync 0;\n"


def fill(parameter: int, count: int, threads: int = 128, offset: int = 0, each_cta: bool = False) -> str:
    """Copies `count` bytes of a buffer to shared memory by ordinary stores; `each_cta`: CTA n takes the n-th `count` bytes."""
    step = f"mov.u32 %s, %ctaid.x; mul.wide.u32 %rd63, %s, {count}; add.u64 %g, %g, %rd63;" if each_cta else ""
    body = f"""ld.param.u64 %g, [p{parameter}]; {step} cvt.u64.u32 %rd63, %i; add.u64 %g, %g, %rd63; ld.global.b32 %v, [%g];
  mov.u32 %s, smem; add.u32 %s, %s, %i; st.shared.b32 [%s+{offset}], %v;"""
    return loop_over_words(count, threads, body) + "fence.proxy.async; bar.sync 0;\n"


def dump(parameter: int, count: int, threads: int = 128, offset: int = 0) -> str:
    """Copies shared memory to a buffer, CTA n (by %ctaid.x) to the n-th `count` bytes."""
    body = f"""mov.u32 %s, smem; add.u32 %s, %s, %i; ld.shared.b32 %v, [%s+{offset}];
  ld.param.u64 %g, [p{parameter}]; mov.u32 %s, %ctaid.x; mul.wide.u32 %rd63, %s, {count}; add.u64 %g, %g, %rd63;
  cvt.u64.u32 %rd63, %i; add.u64 %g, %g, %rd63; st.global.b32 [%g], %v;"""
    return "bar.sync 0;\n" + loop_over_words(count, threads, body)


def put(parameter: int, register: str, bits: int = 32, slot: int = 0, of_thread: bool = True) -> str:
    """Stores a register of each thread of each CTA: element [slot][CTA][thread] of a buffer."""
    size = bits // 8
    thread = "mov.u32 %n, %tid.x; mov.u32 %m, %ctaid.x; mov.u32 %w, %ntid.x; mad.lo.u32 %n, %m, %w, %n;" if of_thread else ""
    first = "" if of_thread else "mov.u32 %n, 0;"
    width = "mov.u32 %m, %nctaid.x; mul.lo.u32 %w, %w, %m;" if of_thread else "mov.u32 %w, 1;"
    return f"""{{ .reg .b32 %n, %m, %w; .reg .b64 %g;
  {thread}{first}{width} mad.lo.u32 %n, %w, {slot}, %n;
  ld.param.u64 %g, [p{parameter}]; mad.wide.u32 %g, %n, {size}, %g; st.global.b{bits} [%g], {register}; }}
"""


def wait(barrier: str, parity: int | str) -> str:
    """Spins on an mbarrier given by its shared address."""
    return f"{{ .reg .pred %w; again: mbarrier.try_wait.parity.shared::cta.b64 %w, [{barrier}], {parity}; @!%w bra again; }}\n"


def wait_a_while(barrier: str, parity: int, flag: str) -> str:
    """As `wait`, but gives up after some milliseconds; `flag` is 1 if the phase ended."""
    return f"""{{ .reg .pred %w, %go; .reg .b32 %n; mov.u32 %n, 0;
again: mbarrier.try_wait.parity.shared::cta.b64 %w, [{barrier}], {parity}; @%w bra done;
  add.u32 %n, %n, 1; setp.lt.u32 %go, %n, 2000; @%go bra again;
done: selp.u32 {flag}, 1, 0, %w; }}
"""


def init(address: str, count: int) -> str:
    return f"mbarrier.init.shared::cta.b64 [{address}], {count}; fence.mbarrier_init.release.cluster;\n"


def first_thread(body: str) -> str:
    """`body` in thread 0 of the CTA alone; all threads meet again behind it."""
    others_leave = ".reg .pred %one; .reg .b32 %me; mov.u32 %me, %tid.x; setp.ne.u32 %one, %me, 0; @%one bra past;"
    return f"{{ {others_leave}\n{body}\npast: bar.sync 0; }}\n"


CLUSTER_SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"


def generator(name: str) -> np.random.Generator:
    """Numbers that depend on the program's name alone."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little"))


def unique(programs: Iterator[Program]) -> list[Program]:
    found = list(programs)
    names = [program.name for program in found]
    assert len(set(names)) == len(names), "program names repeat"
    return found
