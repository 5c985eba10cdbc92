"""A PTX text and its file of certificates: for which kernels it says something that holds, and under which conditions."""

from dataclasses import dataclass

from pipec.verify.checker import check
from pipec.verify.configuration import Refused, need
from pipec.verify.document import Proof
from pipec.verify.network import Network
from pipec.verify.reader import read
from pipec.verify.reader_interface import interface_of
from pipec.verify.terms import Formula
from pipec.verify.words import condition_words

_SPECIAL = {f"%{there}.{axis}": f"{here}.{axis}" for there, here in (("ctaid", "block"), ("nctaid", "grid")) for axis in "xyz"}


@dataclass(frozen=True, slots=True)
class Accepted:
    """No thread of the kernel waits for ever, for all sizes with `conditions`, if `assumptions` hold. `situations`: nodes of the proof."""

    kernel: str
    conditions: tuple[str, ...]
    assumptions: tuple[str, ...]
    situations: int


def accept(ptx: str, proof: Proof) -> Accepted:
    """Raises Unreadable where the text's protocol cannot be read, Refused where the certificate does not prove it."""
    certificate = proof.certificate
    network = read(ptx, certificate.kernel)
    need_proof(network, proof)
    conditions = tuple(in_words(ptx, network, one) for one in certificate.assumes)
    return Accepted(network.name, conditions, network.assumed, sum(len(case.nodes) for case in certificate.cases))


def need_proof(network: Network, proof: Proof) -> None:
    """Raises Refused."""
    need(proof.assumptions == network.assumed, "the assumptions are not those of the kernel")
    try:
        check(network, proof.certificate)
    except RecursionError:
        raise Refused("the certificate is nested too deeply") from None


def in_words(ptx: str, network: Network, condition: Formula) -> str:
    return condition_words(condition, {**_SPECIAL, **interface_of(ptx, network.name).names})
