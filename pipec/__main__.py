"""The `pipec` command, also as `python -m pipec`."""

import gc
import sys
from typing import NoReturn

# While modules load and a kernel compiles nothing becomes garbage in cycles, and looking for it takes a fifth of the time; a simulation
# turns the collector on again.
gc.disable()


def entry() -> NoReturn:
    from pipec.commands.cli import main

    status = main()
    # Python looks for cycles among all objects once more as it ends, which takes a tenth of a compilation.
    gc.freeze()
    sys.exit(status)


if __name__ == "__main__":
    entry()
