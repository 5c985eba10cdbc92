"""The `pipec` command, also as `python -m pipec`."""

import gc
import sys
from typing import NoReturn

# Loading modules and compiling create no garbage cycles, and the collector takes a fifth of the time; a simulation turns it on again.
gc.disable()


def entry() -> NoReturn:
    from pipec.commands.cli import main

    status = main()
    # A final garbage collection at exit takes a tenth of a compilation.
    gc.freeze()
    sys.exit(status)


if __name__ == "__main__":
    entry()
