"""PTX to cubin with both tools, and what their errors look like."""

import pytest

from pipec.diag.message import Sink
from pipec.ptx import assemble as module
from pipec.ptx.assemble import assemble, source_position, source_span, statistics
from pipec.source import Source

KERNEL = """\
.version 8.8
.target sm_100a
.address_size 64
.file 1 "gemm.pipe"
.visible .entry k(.param .u64 p)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<3>;
  .shared .align 4 .b8 buffer[64];
  ld.param.u64 %rd1, [p];
  .loc 1 2 5
  mov.b32 %r1, 3;
  st.shared.u32 [buffer], %r1;
  .loc 1 3 3
  st.global.u32 [%rd1], %r1;
  ret;
}
"""
SOURCE = Source("gemm.pipe", "kernel k():\n    first(1)\n    second(2)\n")
TOOLS = ("nvjitlink", "ptxas")


def errors(ptx, arch="sm_100a", **options):
    sink = Sink()
    assert assemble(ptx, arch, sink, **options) is None
    return sink.diagnostics


@pytest.mark.parametrize("tool", TOOLS)
def test_cubin_and_statistics(tool):
    sink = Sink()
    done = assemble(KERNEL, "sm_100a", sink, tool=tool)
    assert not sink.failed and done is not None
    assert done.cubin.startswith(b"\x7fELF")
    (kernel,) = done.statistics
    assert kernel.name == "k" and kernel.registers > 0 and not kernel.spills and kernel.stack == 0
    assert tool in done.assembler.lower()


@pytest.mark.parametrize("tool", TOOLS)
def test_an_error_points_at_the_source_line(tool):
    bad = KERNEL.replace("st.global", "st.globl")
    (diagnostic,) = errors(bad, tool=tool, sources={"gemm.pipe": SOURCE})
    assert diagnostic.code == "E0951"
    assert "Unknown modifier '.globl'" in diagnostic.title
    assert diagnostic.span.location() == "gemm.pipe:3:5" and diagnostic.span.text() == "second(2)"
    assert diagnostic.note == "PTX line 15: `st.globl.u32 [%rd1], %r1;`"


@pytest.mark.parametrize("tool", TOOLS)
def test_without_the_source_it_points_at_the_ptx(tool):
    bad = KERNEL.replace("%r1, 3", "%r9, 3").replace("st.global", "st.globl")
    first, *_ = errors(bad, tool=tool, name="k.ptx")
    assert first.span.location() == "k.ptx:12:3" and first.span.text() == "mov.b32 %r9, 3;"


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("ptx", ["", "garbage", "\0\1\2", KERNEL[:200], KERNEL.replace("8.8", "99.9")])
def test_any_text_ends_in_a_diagnostic(tool, ptx):
    assert all(diagnostic.code.startswith("E095") for diagnostic in errors(ptx, tool=tool))


@pytest.mark.parametrize("tool", TOOLS)
def test_too_new_ptx_asks_for_a_newer_assembler(tool):
    (diagnostic,) = errors(KERNEL.replace("8.8", "99.9"), tool=tool)
    assert diagnostic.code == "E0952" and "pip install --upgrade" in diagnostic.help


@pytest.mark.parametrize("tool", TOOLS)
def test_an_unknown_architecture(tool):
    (diagnostic,) = errors(KERNEL, arch="sm_1", tool=tool)
    assert diagnostic.code == "E0954" and "sm_1" in diagnostic.title and "sm_100a" in diagnostic.title


@pytest.mark.parametrize("tool", TOOLS)
def test_ptx_of_another_architecture(tool):
    (diagnostic,) = errors(KERNEL, arch="sm_90a", tool=tool)
    assert diagnostic.code == "E0954" and ".target" in diagnostic.title


def test_a_missing_assembler_names_the_packages(monkeypatch):
    def missing(*_):
        raise module.AssemblerUnavailable("libnvJitLink.so not found (package nvidia-nvjitlink)")

    monkeypatch.setattr(module, "_TOOLS", {"nvjitlink": missing, "ptxas": missing})
    (diagnostic,) = errors(KERNEL)
    assert diagnostic.code == "E0953"
    assert "nvidia-nvjitlink" in diagnostic.note and "pipec[assemble]" in diagnostic.help


def test_auto_tries_the_next_tool(monkeypatch):
    def missing(*_):
        raise module.AssemblerUnavailable("not here")

    monkeypatch.setitem(module._TOOLS, "ptxas", missing)
    done = assemble(KERNEL, "sm_100a", Sink())
    assert done is not None and done.assembler.startswith("nvJitLink")


def test_auto_passes_over_a_tool_that_is_too_old(monkeypatch):
    old = module._Outcome("ptxas 12.0", None, "ptxas fatal   : Value 'sm_100a' is not defined for option 'gpu-name'")
    monkeypatch.setitem(module._TOOLS, "ptxas", lambda *_: old)
    done = assemble(KERNEL, "sm_100a", Sink())
    assert done is not None and done.assembler.startswith("nvJitLink")
    (diagnostic,) = errors(KERNEL, tool="ptxas")
    assert diagnostic.code == "E0952"


def test_performance_losses_are_reported():
    """A register budget, which nvJitLink ignores and ptxas keeps."""
    text = KERNEL.replace("p)\n{", "p)\n.maxnreg 64\n.reqntid 128\n{")
    text = text.replace("  ret;", "  setmaxnreg.dec.sync.aligned.u32 24;\n  ret;")
    told = {tool: assemble(text, "sm_100a", Sink(), tool=tool) for tool in TOOLS}
    assert told["ptxas"] is not None and told["ptxas"].losses == ()
    assert told["nvjitlink"] is not None and "'setmaxnreg' ignored" in told["nvjitlink"].losses[0]


def test_positions_stop_at_the_function():
    assert source_position(KERNEL, 15) == ("gemm.pipe", 3, 3)
    assert source_position(KERNEL, 12) == ("gemm.pipe", 2, 5)
    assert source_position(KERNEL, 8) is None
    assert source_position(KERNEL.replace(".loc 1 2 5", ".loc 1 0 0"), 12) is None


def test_embedded_source_keeps_its_own_lines():
    embedded = Source("model.py", SOURCE.text, first_line=40, indent=4)
    ptx = KERNEL.replace("gemm.pipe", "model.py").replace(".loc 1 3 3", ".loc 1 42 9")
    span = source_span(ptx, 15, {"model.py": embedded})
    assert span.location() == "model.py:42:9" and span.text() == "second(2)"


def test_statistics_of_spills_and_shared_memory():
    log = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_100a'
ptxas info    : Function properties for a
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 1024 bytes smem, 128 bytes cmem[0]
ptxas info    : Compiling entry function 'b' for 'sm_100a'
ptxas info    : Function properties for b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers
"""
    a, b = statistics(log)
    assert (a.name, a.registers, a.barriers, a.stack, a.spill_stores, a.spill_loads, a.shared) == ("a", 255, 1, 16, 8, 4, 1024)
    assert a.spills and not b.spills and (b.registers, b.barriers, b.shared) == (12, 0, 0)
