"""Forged certificates: a thousand files, one change each. What is not refused says something else that is true, which runs confirm."""

import random
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.judge import judge
from pipec.record import replace
from pipec.source import Source
from pipec.verify.accept import need_proof, proved_network
from pipec.verify.checker.certificate import Certificate
from pipec.verify.checker.configuration import Refused
from pipec.verify.data import Malformed
from pipec.verify.document import Document, Proof, document_of, from_json, to_json
from pipec.verify.network import Network
from tests.verify.follow import follow_certificate, sizes_of
from tests.verify.forging import Forgery, forgeries, kind_of

GOLDEN = Path(__file__).parents[1] / "golden"
EXAMPLES = ("gemm", "gemm_sm90", "gemm_linear", "gemm_types", "gemm_k_group", "elementwise", "rms_norm_cluster", "role_pipeline")
EACH = 125
RUNS = 12  # of a certificate that is not refused


@cache
def proved(example: str) -> tuple[Network, Document]:
    """The first kernel of an example with its certificate."""
    ptx = (GOLDEN / f"{example}.ptx").read_text(encoding="utf-8")
    name = ptx.split(".entry ")[1].split("(")[0]
    found = judge(ptx, name)
    assert found.network is not None and found.certificate is not None, found.why
    return found.network, document_of(ptx, [Proof(found.certificate, found.network.assumed)])


def verdict(forgery: Forgery, network: Network, document: Document) -> tuple[str, Certificate | None]:
    """Where a forged file is found out; with the certificate where it is not."""
    try:
        read = from_json(forgery.text)
    except Malformed:
        return "no file of certificates", None
    if read.digest != document.digest:
        return "of another PTX", None
    if [one.certificate.kernel for one in read.proofs] != [network.name]:
        return "of another kernel", None
    (proof,) = read.proofs
    try:
        need_proof(network, proof)
    except Refused:
        return "refused", None
    return ("the same" if plain(proof.certificate) == plain(document.proofs[0].certificate) else "another"), proof.certificate


def plain(certificate: Certificate) -> object:
    """Without the order of conditions that all hold, which says nothing."""
    return [
        (frozenset(case.when), case.begin, [replace(node, facts=frozenset(node.facts)) for node in case.nodes])  # type: ignore[arg-type]
        for case in certificate.cases
    ]


@pytest.mark.parametrize("example", (*EXAMPLES, "gemm_split_k", "gemm_split_k_serial", "gemm_tiles", "copy_tma"))
def test_what_is_written_is_read_again(example: str) -> None:
    _, document = proved(example)
    (proof,) = document.proofs
    written = replace(document, proofs=(replace(proof, certificate=replace(proof.certificate, assumes=())),))
    assert from_json(to_json(document)) == written


@pytest.mark.parametrize("example", EXAMPLES)
def test_forged_certificates_are_refused(example: str) -> None:
    network, document = proved(example)
    chosen = random.Random(example)
    found: Counter[str] = Counter()
    fields = set()
    for forgery in forgeries(to_json(document), EACH, chosen):
        what, certificate = verdict(forgery, network, document)
        found[what] += 1
        fields.add(kind_of(forgery.path))
        if what == "another":
            # A fact that says less, or a step that may come earlier, makes another proof: only what is part of the argument may differ.
            assert {"facts", "steps", "when"} & {*forgery.path}, forgery
            assert certificate is not None
            confirm(network, certificate, chosen)
    assert sum(found.values()) == EACH and found["refused"] > EACH // 20 and found["no file of certificates"] > EACH // 20
    assert found["another"] + found["the same"] < EACH // 8, found
    assert ("kernels", "[]", "certificate", "cases", "[]", "begin", "steps", "[]") in fields


def confirm(network: Network, certificate: Certificate, chosen: random.Random) -> None:
    runs = 0
    for _ in range(RUNS):
        sizes = sizes_of(network, chosen)
        if sizes is not None:
            follow_certificate(network, certificate, sizes, chosen)
            runs += 1
    assert runs > RUNS // 2


@pytest.mark.parametrize("example", EXAMPLES)
def test_confirmation_rejects_wrong_certificates(example: str) -> None:
    """A right certificate is confirmed; one whose schedule lacks a step, or whose facts are wrong, is not."""
    network, document = proved(example)
    (proof,) = document.proofs
    confirm(network, proof.certificate, random.Random(1))
    case, *others = proof.certificate.cases
    shorter = replace(case, begin=replace(case.begin, steps=case.begin.steps[1:]))
    with pytest.raises(AssertionError):
        confirm(network, replace(proof.certificate, cases=(shorter, *others)), random.Random(1))


def test_assumptions_are_identified_by_keys_and_not_by_words() -> None:
    """A file stays valid when the words of the report change."""
    network, document = proved("gemm")
    (assumed,) = document.proofs[0].assumptions
    kind, _, lines = assumed.partition(": ")
    assert [kind] == [one.kind for one in network.assumptions] and lines == str(network.assumptions[0].lines[0])


WALK = """\
kernel k(z: tensor[f32, M, N], keys: tensor[f32, K, N]):
    grid(min(ceildiv(M, 128) * ceildiv(N, 128), 132))
    p = ProducerConsumerPipeline(stages=3)
    role a(warps=1) produces p:
        for t in range(block.x, ceildiv(M, 128) * ceildiv(N, 128), grid.x):
            for k in range(min(ceildiv(K, 64), t // ceildiv(N, 128) + 1)):
                with p.produce() as s:
                    pass
    role b(warps=1) consumes p:
        for i in range(ceildiv(ceildiv(M, 128) * ceildiv(N, 128) - block.x, grid.x)):
            t = block.x + i * grid.x
            for k in range(min(ceildiv(K, 64), t // ceildiv(N, 128) + 1)):
                p.consumer_signal_and_step()
"""


def test_a_schedule_of_processes_in_other_words_is_one_of_the_processes() -> None:
    state = compile_source(Source("k.pipe", WALK), Options("sm_90a"))
    assert state.ptx is not None and not state.failed
    proof = state.certificates["k"]
    assert [one.process for one in proof.certificate.restated] == [0, 1]
    document = document_of(state.ptx, [proof])
    assert from_json(to_json(document)) == replace(
        document, proofs=(replace(proof, certificate=replace(proof.certificate, assumes=())),)
    )
    network = proved_network(state.ptx, proof)
    chosen = random.Random(1)
    confirm(network, proof.certificate, chosen)
    found: Counter[str] = Counter()
    for forgery in forgeries(to_json(document), 14, chosen):
        what, certificate = verdict(forgery, network, document)
        found[what] += 1
        if certificate is not None:
            confirm(network, certificate, chosen)
    assert found["refused"] > 1
