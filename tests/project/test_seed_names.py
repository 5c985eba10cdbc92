"""Every name of the five pipeline pages is an operation of the language, on the type whose page it stands on."""

import pytest

from pipec.sema.operations import MEMBERS

# The names of each page, as that page spells them; constructors and type parameters are listed below.
_RING_BOTH_SIDES = (
    "wait_producer", "wait_consumer", "try_wait_producer", "try_wait_consumer", "wait_producer_if_needed", "wait_consumer_if_needed",
    "producer_step", "consumer_step", "producer_mbar", "consumer_mbar", "producer_signal_and_step", "consumer_signal_and_step", "produce",
    "consume", "consume_explicit", "acquire_producer", "acquire_consumer", "init_mbars",
)  # fmt: skip
PAGES: dict[str, tuple[str, ...]] = {
    "ProducerConsumerPipeline": _RING_BOTH_SIDES,
    "producer stage": ("index", "mbar", "release", "payload", "stage", "barrier", "expect_bytes", "tmem", "tmem_offset"),
    "consumer stage": ("index", "mbar", "arrive", "release", "release_without_signal", "payload", "stage", "tmem", "tmem_offset"),
    "RolePipeline": (
        "producer_mbar", "consumer_mbar", "acquire", "commit", "commit_mma", "wait", "release", "release_no_step", "step", "num_stages",
    ),
    "InputTilePipeline": (
        "init_barriers", "try_acquire_producer", "try_acquire_consumer", "wait_producer_if_needed", "wait_consumer_if_needed",
        "producer_stage", "consumer_stage", "producer_mbar", "consumer_mbar", "producer", "consumer", "acquire_producer",
        "acquire_consumer", "drain_producer", "payload",
    ),
    "OutputTilePipeline": (
        "init_barriers", "acquire_for_mma", "release_from_mma", "acquire_for_epilogue", "release_from_epilogue", "producer", "consumer",
        "acquire_mma_linear", "acquire_epilogue_linear", "get_pipeline", "per_k", "per_k_epilogue",
    ),
    "EpiLoadPipeline": (
        "init_barriers", "produce", "acquire_producer", "wait_consumer", "producer_mbar", "producer_step", "consume", "consume_explicit",
        "acquire_consumer", "wait_producer", "consumer_stage", "consumer_step",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in PAGES.items() for name in names])
def test_the_name_is_an_operation(owner: str, name: str) -> None:
    assert name in MEMBERS[owner]
