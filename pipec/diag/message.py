"""What a diagnostic is: messages are declared in `pipec.diag.catalogue`, reported to a `Sink`, printed by `pipec.diag.render`.

A message is a class: its annotated fields are what the reporter supplies (spans and values), its class attributes are the
text. So a checker never holds prose and the catalogue never holds logic.

    class NeverReleased(Message):
        '''What `pipec explain E0301` prints.'''
        code = "E0301"
        title = "stage `{stage}` is never released"
        labels = (primary("at", "obtained here"), secondary("end", "the role ends here without a release"))
        note = "the slot stays full: with {stages} stages the producer blocks in iteration {blocked}"
        help = "add `{stage}.release()` before the role ends"
        stage: str
        stages: int
        blocked: int
        at: Span
        end: Span | None

A label whose span field is None is left out; a note or help that needs a field which is None is left out.
"""

from collections.abc import Iterator
from string import Formatter
from typing import Any, ClassVar

from pipec.record import record
from pipec.source import Span


@record
class LabelTemplate:
    field: str
    text: str
    primary: bool


def primary(field: str, text: str) -> LabelTemplate:
    """The label that says what is wrong; `field` names the message's span field."""
    return LabelTemplate(field, text, True)


def secondary(field: str, text: str) -> LabelTemplate:
    """A label that says why: obtained here, declared here."""
    return LabelTemplate(field, text, False)


@record
class Label:
    span: Span
    text: str
    primary: bool


@record
class Diagnostic:
    """A finished diagnostic, ready to print: text in, spans resolved."""

    code: str
    title: str
    labels: tuple[Label, ...]
    note: str | None
    help: str | None

    @property
    def span(self) -> Span | None:
        return next((label.span for label in self.labels if label.primary), None)


class Message:
    """Base of every entry of the catalogue; subclasses are declared with the attributes and fields shown above."""

    code: ClassVar[str]
    title: ClassVar[str]
    labels: ClassVar[tuple[LabelTemplate, ...]] = ()
    note: ClassVar[str | None] = None
    help: ClassVar[str | None] = None

    # Filled by __init_subclass__: code -> class. A code is used once, for ever.
    by_code: ClassVar[dict[str, type["Message"]]] = {}
    _fields: ClassVar[frozenset[str]]

    def __init_subclass__(cls) -> None:
        cls._fields = frozenset(cls.__annotations__)
        if cls.code in Message.by_code:
            raise TypeError(f"{cls.__name__} uses code {cls.code} of {Message.by_code[cls.code].__name__}")
        Message.by_code[cls.code] = cls

    def __init__(self, **fields: Any) -> None:
        if fields.keys() != self._fields:
            wrong = sorted(fields.keys() ^ self._fields)
            raise TypeError(f"{type(self).__name__}: fields missing or unknown: {', '.join(wrong)}")
        self.fields = fields

    def diagnostic(self) -> Diagnostic:
        return Diagnostic(
            self.code,
            self.title.format(**self.fields),
            tuple(dict.fromkeys(self._labels())),  # what was unrolled stands in one place several times
            self._optional(self.note),
            self._optional(self.help),
        )

    def _labels(self) -> Iterator[Label]:
        for template in self.labels:
            span = self.fields[template.field]
            spans = span if isinstance(span, tuple | list) else (span,)
            for one in spans:
                if one is not None:
                    yield Label(one, template.text.format(**self.fields), template.primary)

    def _optional(self, template: str | None) -> str | None:
        if template is None:
            return None
        needed = {name for _, name, _, _ in Formatter().parse(template) if name}
        if any(self.fields[name] is None for name in needed):
            return None
        return template.format(**self.fields)


class Failure(Exception):
    """Ends a command or a call with something to report: `diagnostics` is never empty."""

    def __init__(self, *found: Message | Diagnostic) -> None:
        self.diagnostics: list[Diagnostic] = [one.diagnostic() if isinstance(one, Message) else one for one in found]
        super().__init__("; ".join(f"{one.code}: {one.title}" for one in self.diagnostics))


class Sink:
    """Collects diagnostics; one per (code, place), so that a fault reached on two paths is told once."""

    def __init__(self) -> None:
        self._diagnostics: dict[tuple, Diagnostic] = {}

    def report(self, message: Message) -> None:
        diagnostic = message.diagnostic()
        span = diagnostic.span
        key = (diagnostic.code, span.location() if span else diagnostic.title)
        self._diagnostics.setdefault(key, diagnostic)

    def checkpoint(self) -> dict:
        """What was reported so far, for `take_back`."""
        return dict(self._diagnostics)

    def take_back(self, checkpoint: dict) -> None:
        """Forgets what was reported since the checkpoint."""
        self._diagnostics = dict(checkpoint)

    @property
    def failed(self) -> bool:
        return bool(self._diagnostics)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """In source order; those without a place first."""
        return sorted(self._diagnostics.values(), key=_order)


def _order(diagnostic: Diagnostic) -> tuple:
    span = diagnostic.span
    return (span.source.name, span.line, span.column, diagnostic.code) if span else ("", 0, 0, diagnostic.code)
