"""Programs that grow in one respect, up to 100 KB (`families.py`): every command ends, in bounded time and memory, with an answer."""

import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from families import FAMILIES, LARGEST_TEXT, Family

from pipec.budgets import BUDGETS

_ROOT = Path(__file__).resolve().parents[2]
# A diagnostic may come a little after its budget ended: the garbage has to be counted, the main thread to be reached.
_MOST_SECONDS = BUDGETS["processor time"].limit + 10
_MOST_MEGABYTES = 1.25 * BUDGETS["memory"].limit


def attempt(draw: random.Random) -> str | None:
    family = draw.choice(FAMILIES)
    most = family.largest(LARGEST_TEXT)
    return tried(family, max(1, round(most ** draw.uniform(0.3, 1.0))))


def tried(family: Family, size: int) -> str | None:
    """Runs the family's command on a program of that size; what is wrong with how it ended."""
    with tempfile.TemporaryDirectory(prefix="pipec-") as folder:
        file = Path(folder, "grown" + family.suffix)
        file.write_text(family.make(size))
        command = [sys.executable, "-m", "pipec", *family.command, str(file), *family.after]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", cwd=_ROOT
        )
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (_MOST_SECONDS + 10, _MOST_SECONDS + 10))
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds, megabytes = used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3
    what = f"{family.name}, size {size}: status {process.returncode}, {seconds:.1f} s, {megabytes:.0f} MB"
    ended_well = process.returncode == 0 or (process.returncode == 1 and "error[" in said)
    if not ended_well or "error[E0001]" in said or "Traceback" in said:
        return f"{what}\n{said[-2000:]}"
    return what if seconds > _MOST_SECONDS or megabytes > _MOST_MEGABYTES else None
