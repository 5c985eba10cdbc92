"""Runs PTX text on a simulated SM100: warps with divergence, mbarriers, TMA, tensor memory, clusters.

Independent of the compiler: it tests the PTX that would be launched, whoever generated it.
"""

from .arguments import Argument, ArrayArgument, Loose, RawArgument, ScalarArgument, TensorMapArgument
from .errors import SimulationError, SourceLocation
from .launch import Result, Statistics, launch
from .machine.machine import Options, TraceEvent
from .machine.races.preceding import Touched
from .ptx.parse import parse
from .timeline import chrome_trace
from .units.copies.im2col import Im2colMap
from .units.copies.tensormap import TensorMap

__all__ = [
    "Argument",
    "ArrayArgument",
    "Im2colMap",
    "Loose",
    "Options",
    "RawArgument",
    "Result",
    "ScalarArgument",
    "SimulationError",
    "SourceLocation",
    "Statistics",
    "TensorMap",
    "TensorMapArgument",
    "Touched",
    "TraceEvent",
    "chrome_trace",
    "launch",
    "parse",
]
