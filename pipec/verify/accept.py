"""Accepts a PTX text with its file of certificates: which kernels are proved, and under which conditions."""

from pipec.record import record
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused, need
from pipec.verify.condition_text import conditions_words
from pipec.verify.document import Proof
from pipec.verify.network import Network
from pipec.verify.reader.readings import readings_as_stated
from pipec.verify.reader.text.interface import interface_of


@record
class Accepted:
    """No thread of the kernel waits for ever, for all sizes with `conditions` (empty: all), if `assumptions` hold.

    `situations`: nodes of the proof."""

    kernel: str
    conditions: str
    assumptions: tuple[str, ...]
    situations: int


def accept(ptx: str, proof: Proof) -> Accepted:
    """Raises Unreadable if the text's protocol cannot be read, Refused if the certificate does not prove it."""
    certificate = proof.certificate
    network = proved_network(ptx, proof)
    conditions = interface_of(ptx, network.name).conditions
    return Accepted(
        network.name,
        conditions_words(conditions),
        tuple(map(str, network.assumptions)),
        sum(len(case.nodes) for case in certificate.cases),
    )


def proved_network(ptx: str, proof: Proof) -> Network:
    """The network of the reading that the proof is about: each reading is a sound model of the text."""
    refused: Refused | None = None
    for reading in readings_as_stated(ptx, proof.certificate.kernel):
        try:
            return need_proof(reading.network, proof)
        except Refused as why:
            refused = refused or why
    assert refused is not None
    raise refused


def need_proof(network: Network, proof: Proof) -> Network:
    """The network with the assumptions that are needed. Raises Refused."""
    try:
        needed = check(network, proof.certificate)
    except RecursionError:
        raise Refused("the certificate is nested too deeply") from None
    need(proof.assumptions == needed.assumed, "the assumptions are not those of the kernel")
    return needed
