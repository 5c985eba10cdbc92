"""The benchmarks are programs beside the package: the checkout goes on the path."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
