"""`pipec verify`: certificates against a PTX file. Of the rest of pipec it uses only messages, files and printing, so that its verdict
does not depend on the compiler or the proof search; a test enforces this."""

import argparse

from pipec.api.files import read_input, read_source
from pipec.commands.printer import Printer
from pipec.diag.catalogue.commands import verification as messages
from pipec.diag.message import Failure, Message
from pipec.source import Source, Span
from pipec.verify.accept import Accepted, accept
from pipec.verify.checker.configuration import Refused
from pipec.verify.data import Malformed
from pipec.verify.document import Document, Proof, digest_of, from_json
from pipec.verify.network import Unreadable
from pipec.verify.reader.text.statements import entries_of


def verify(options: argparse.Namespace) -> int:
    """Prints what holds for each kernel. Raises Failure with what does not."""
    source, document = read_input(options.file), _document(options.certificate)
    found = digest_of(source.text)
    if found != document.digest:
        raise Failure(messages.OtherPtx(name=options.certificate, ptx=source.name, stated=document.digest, found=found))
    proofs = {one.certificate.kernel: one for one in document.proofs}
    entries = _entries(source)
    known = ", ".join(f"`{name}`" for name in entries) or "none"
    missing = [name for name in (*proofs, *filter(None, [options.kernel])) if name not in entries]
    if missing:
        raise Failure(messages.NoSuchEntry(name=source.name, kernel=missing[0], known=known))
    refused: list[Message] = []
    for name in entries if options.kernel is None else (options.kernel,):
        outcome = _outcome(source, name, proofs.get(name))
        if isinstance(outcome, Accepted):
            _print(options.printer, outcome)
        else:
            refused.append(outcome)
    if refused:
        raise Failure(*refused)
    return 0


def _entries(source: Source) -> tuple[str, ...]:
    """The kernels of the text: at least one."""
    try:
        if found := entries_of(source.text):
            return found
        reason, at = "", _line(source, 1)
    except Unreadable as why:
        reason, at = f": {why.why}", _line(source, why.line)
    raise Failure(messages.NoKernel(name=source.name, reason=reason, at=at))


def _line(source: Source, number: int) -> Span:
    line = min(number, len(source.lines))
    return source.span(line, 1, line, len(source.line(line)) + 1)


def _document(name: str) -> Document:
    try:
        return from_json(read_source(name).text)
    except Malformed as why:
        raise Failure(messages.BadCertificate(name=name, problem=str(why))) from None


def _outcome(source: Source, kernel: str, proof: Proof | None) -> Accepted | Message:
    if proof is None:
        return messages.NoCertificate(kernel=kernel)
    try:
        return accept(source.text, proof)
    except Unreadable as why:
        return messages.NotRead(kernel=kernel, reason=why.why, at=_line(source, why.line))
    except Refused as why:
        return messages.NotAccepted(kernel=kernel, reason=str(why))


def _print(printer: Printer, found: Accepted) -> None:
    sizes = f"all sizes with {found.conditions}" if found.conditions else "all sizes"
    printer.text(f"{found.kernel}: no role waits for ever, for {sizes}")
    for assumption in found.assumptions:
        printer.text(f"  if      {assumption}")
    printer.row(
        "verified",
        kernel=found.kernel,
        conditions=found.conditions,
        assumptions=found.assumptions,
        situations=found.situations,
    )
