"""The certificate file of a PTX text: identifies the text, and has a proof for each kernel that is proved.

Every field is required and no others are allowed, so that nothing in the file is unchecked: the text must have the given hash, the named
assumptions must be those that the reader finds in it, and the certificate must be a proof.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from pipec.record import record
from pipec.verify.checker.certificate import Certificate, certificate_of, data_of
from pipec.verify.data import Malformed, fields, items

FORMAT = 3


@record
class Proof:
    """`assumptions`: assumptions other than on sizes, as in `Network.assumed`: kinds and lines."""

    certificate: Certificate
    assumptions: tuple[str, ...]


@record
class Document:
    """`digest`: of the PTX text. `proofs`: of its proved kernels, in order."""

    digest: str
    proofs: tuple[Proof, ...]


def digest_of(ptx: str) -> str:
    from hashlib import sha256  # loads OpenSSL, which a compilation without a certificate does not need

    return sha256(ptx.encode()).hexdigest()


def document_of(ptx: str, proofs: Iterable[Proof]) -> Document:
    return Document(digest_of(ptx), tuple(proofs))


def to_json(document: Document) -> str:
    kernels = [{"assumptions": list(one.assumptions), "certificate": data_of(one.certificate)} for one in document.proofs]
    made = {"format": FORMAT, "ptx_sha256": document.digest, "kernels": kernels}
    return json.dumps(made, separators=(",", ":")) + "\n"


def from_json(text: str) -> Document:
    """Raises only Malformed."""
    try:
        data = json.loads(text, object_pairs_hook=_distinct)
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    except ValueError as error:
        raise Malformed(f"it is not JSON: {error}") from None
    format_, digest, kernels = fields(data, "format", "ptx_sha256", "kernels")
    if format_ != FORMAT or type(format_) is not int:
        raise Malformed(f"its format is not {FORMAT}")
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise Malformed("the hash of the PTX is not 64 hexadecimal digits")
    proofs = tuple(map(_proof, items(kernels)))
    names = [one.certificate.kernel for one in proofs]
    if len({*names}) < len(names):
        raise Malformed("a kernel has two certificates")
    return Document(digest, proofs)


def _proof(data: object) -> Proof:
    assumptions, certificate = fields(data, "assumptions", "certificate")
    words = tuple(one for one in items(assumptions) if isinstance(one, str))
    if len(words) < len(items(assumptions)):
        raise Malformed("an assumption that is no text")
    return Proof(certificate_of(certificate), words)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Malformed("an object has a field twice")
    return found
