"""E11xx: certificates, and what `pipec verify` says of a PTX file."""

from pipec.diag.message import Message, primary
from pipec.source import Span


class BadCertificate(Message):
    """`pipec verify` reads what `pipec check FILE --certificate OUT.json` wrote: JSON with the hash of the PTX and, for each kernel that
    is proved, the schedule of its roles with the facts that hold on the way (docs/proof.md). Every field is needed and no others are
    allowed."""

    code = "E1101"
    title = "`{name}` is no file of certificates: {problem}"
    name: str
    problem: str


class OtherPtx(Message):
    """A certificate is about one PTX text, byte for byte, and carries its hash. Another text, with another number in an instruction or only
    in a comment, needs its own: compile it again with `--certificate`, and the same options as the PTX."""

    code = "E1102"
    title = "the certificates in `{name}` are of another PTX than `{ptx}`"
    note = "they are of a text with SHA-256 {stated}; this one has {found}"
    name: str
    ptx: str
    stated: str
    found: str


class NotAccepted(Message):
    """The certificate does not prove that the kernel's roles never wait for ever: a step of its schedule is not possible, a fact does not
    follow, an outcome of a test is left out, or a parity may be taken for that of another phase (docs/proof.md has the list).

    That says nothing bad of the kernel yet, only that this certificate does not show it to be right.
    """

    code = "E1103"
    title = "the certificate of kernel `{kernel}` does not prove it: {reason}"
    note = "whether a role of the kernel may wait for ever is not known from it"
    kernel: str
    reason: str


class NoCertificate(Message):
    """The PTX has a kernel of which the file of certificates has nothing: it was not proved when the certificates were written
    (`pipec check` calls it open and says why), or the files do not belong together. `--kernel` asks about one kernel only."""

    code = "E1104"
    title = "kernel `{kernel}` has no certificate"
    note = "whether a role of it may wait for ever is not known"
    kernel: str


class NoSuchEntry(Message):
    """`--kernel`, and each certificate, name a kernel of the PTX: what stands behind `.entry`."""

    code = "E1105"
    title = "`{name}` has no kernel `{kernel}`"
    note = "it has {known}"
    name: str
    kernel: str
    known: str


class NotRead(Message):
    """What the kernel's threads wait for and what they signal is read from the PTX text. An instruction or an order of them that is not
    understood there is never guessed at, so nothing can be said of the kernel."""

    code = "E1106"
    title = "the protocol of kernel `{kernel}` cannot be read: {reason}"
    labels = (primary("at", "here"),)
    kernel: str
    reason: str
    at: Span


class CertificateOfWatched(Message):
    """What is proved is the kernel whose waits have no time limit. A kernel compiled with `--watchdog` is another text, which ends with a
    trap where that one would wait; it is for finding out why something hangs, and needs no certificate."""

    code = "E1107"
    title = "a kernel with a watchdog has no certificate"
    help = "leave out `--watchdog`, or `--certificate`"
