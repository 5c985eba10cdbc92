"""E11xx: certificates, and what `pipec verify` says about a PTX file."""

from pipec.diag.message import Message, primary
from pipec.source import Span


class BadCertificate(Message):
    """`pipec verify` reads what `pipec check FILE --certificate OUT.json` wrote: JSON with the hash of the PTX and, for each kernel that
    is proved, the schedule of its roles with the facts that hold on the way (docs/proof.md). Every field is needed and no others are
    allowed."""

    code = "E1101"
    title = "`{name}` is not a certificate file: {problem}"
    name: str
    problem: str


class OtherPtx(Message):
    """A certificate is about one PTX text, byte for byte, and carries its hash. Another text, with another number in an instruction or
    only in a comment, needs its own: compile it again with `--certificate`, and the same options as the PTX."""

    code = "E1102"
    title = "the certificates in `{name}` belong to a different PTX text than `{ptx}`"
    note = "they belong to a text with SHA-256 {stated}; this one has {found}"
    name: str
    ptx: str
    stated: str
    found: str


class NotAccepted(Message):
    """The certificate does not prove that the kernel's roles never wait for ever: a step of its schedule is not possible, a fact does not
    follow, an outcome of a test is left out, or a parity may be taken for that of another phase (docs/proof.md has the list).

    The kernel may still be correct; only this certificate does not prove it.
    """

    code = "E1103"
    title = "the certificate of kernel `{kernel}` does not prove it: {reason}"
    note = "it leaves open whether a role of the kernel may wait for ever"
    kernel: str
    reason: str


class NoCertificate(Message):
    """The certificate file has no entry for a kernel of the PTX: either it was not proved when the certificates were written
    (`pipec check` calls it open and says why), or the files do not belong together. `--kernel` asks about one kernel only."""

    code = "E1104"
    title = "kernel `{kernel}` has no certificate"
    note = "it is not known whether one of its roles may wait for ever"
    kernel: str


class NoSuchEntry(Message):
    """`--kernel`, and each certificate, name a kernel of the PTX: the name after `.entry`."""

    code = "E1105"
    title = "`{name}` has no kernel `{kernel}`"
    note = "it has {known}"
    name: str
    kernel: str
    known: str


class NotRead(Message):
    """pipec reads from the PTX text what the kernel's threads wait for and what they signal. It never guesses at an instruction, or an
    order of instructions, that it does not understand, so it can say nothing about this kernel."""

    code = "E1106"
    title = "the protocol of kernel `{kernel}` cannot be read: {reason}"
    labels = (primary("at", "here"),)
    kernel: str
    reason: str
    at: Span


class NoKernel(Message):
    """`pipec verify` reports about each kernel of the PTX text, which begins with `.entry` and a name. It found none: the file may be the
    wrong one, or its text may be damaged, for example by a string or a comment without an end."""

    code = "E1108"
    title = "`{name}` has no kernel that can be read{reason}"
    labels = (primary("at", "here"),)
    name: str
    reason: str
    at: Span


class CertificateOfWatched(Message):
    """A certificate is about the kernel whose waits have no time limit. A kernel compiled with `--watchdog` is a different text, which
    traps where the other would wait; it serves to find out why something hangs, and needs no certificate. One compiled with
    `--timestamps` is different in the same sense: it also writes the clock to memory."""

    code = "E1107"
    title = "a kernel with a watchdog or time stamps has no certificate"
    help = "remove `--watchdog` and `--timestamps`, or `--certificate`"
