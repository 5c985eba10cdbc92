"""The reference of a kernel and the comparison: the `numpy:` line of its docstring in float64, a bound per element, trial arguments."""

from pipec.reference.bounded import Bounded, Precision, bounded
from pipec.reference.compare import Comparison, compare, poisoned, rounded
from pipec.reference.lines import (
    apply_given,
    dtypes_of,
    expected_values,
    given_lines,
    reference_lines,
    shape_sets,
)
from pipec.reference.precision import precision_of, rounding_to
from pipec.reference.problem import ReferenceProblem
from pipec.reference.trial import Trial, trial_of

__all__ = [
    "Bounded",
    "Comparison",
    "Precision",
    "ReferenceProblem",
    "Trial",
    "apply_given",
    "bounded",
    "compare",
    "dtypes_of",
    "expected_values",
    "given_lines",
    "poisoned",
    "precision_of",
    "reference_lines",
    "rounded",
    "rounding_to",
    "shape_sets",
    "trial_of",
]
