"""Whether there is a GPU to test on; without one the tests that need it are skipped, and say why."""

import pytest

from pipec.runtime.errors import DeviceError
from pipec.runtime.gpu.cuda import devices, fitting_device


def gpu_missing() -> str | None:
    try:
        fitting_device("sm_90a")
    except DeviceError as missing:
        return str(missing)
    return None


def second_missing() -> str | None:
    """Why there is no second GPU to run on."""
    if (why := gpu_missing()) is not None:
        return why
    fitting = [device for device in devices() if device.runs("sm_90a")]
    return None if len(fitting) > 1 else f"there is only {fitting[0].name}"


needs_gpu = pytest.mark.skipif(gpu_missing() is not None, reason=f"needs an sm_90a GPU: {gpu_missing()}")
needs_two_gpus = pytest.mark.skipif(second_missing() is not None, reason=f"needs two sm_90a GPUs: {second_missing()}")
