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

Where the help is one certain edit, `edits` says it as data (replacements of spans), for editors and for the test that applies each:

        edits = (replace("at", "{close}"),)
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, dataclass_transform

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
class Edit:
    """The text of `span` (nothing, for an insertion) becomes `text`."""

    span: Span
    text: str


@record
class EditTemplate:
    """`where` relates to the span in `field`: a line "above" has the indentation of the span's first line."""

    field: str
    text: str
    where: Literal["replace", "before", "above", "line", "argument", "keyword"]


def replace(field: str, text: str) -> EditTemplate:
    """The text at the span becomes `text`; an empty text removes it."""
    return EditTemplate(field, text, "replace")


def insert_before(field: str, text: str) -> EditTemplate:
    return EditTemplate(field, text, "before")


def add_line_above(field: str, text: str) -> EditTemplate:
    """A separate line above the statement that contains the span, with the same indentation."""
    return EditTemplate(field, text, "above")


def remove_argument(field: str) -> EditTemplate:
    """Removes the keyword argument whose value is the span, with its comma."""
    return EditTemplate(field, "", "argument")


def set_keyword(field: str, name: str, text: str) -> EditTemplate:
    """Sets the value of the keyword argument `name` in the span's line to `text`; an empty text removes the argument."""
    return EditTemplate(field, f"{name}={text}", "keyword")


def remove_line(field: str) -> EditTemplate:
    """The whole lines that contain the span."""
    return EditTemplate(field, "", "line")


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
    edits: tuple[Edit, ...] = ()

    @property
    def span(self) -> Span | None:
        return next((label.span for label in self.labels if label.primary), None)


@dataclass_transform(kw_only_default=True)
class Message:
    """Base of every entry of the catalogue; subclasses are declared with the attributes and fields shown above.

    Type checkers see a dataclass (PEP 681): a field that is missing, unknown or of another type is an error where the message is made.
    """

    code: ClassVar[str]
    title: ClassVar[str]
    # Its name in `pipec explain` and in the index, where the title consists mostly of fields.
    subject: ClassVar[str | None] = None
    labels: ClassVar[tuple[LabelTemplate, ...]] = ()
    note: ClassVar[str | None] = None
    help: ClassVar[str | None] = None
    edits: ClassVar[tuple[EditTemplate, ...]] = ()

    # Filled by __init_subclass__: code -> class. Codes are never reused.
    by_code: ClassVar[dict[str, type["Message"]]] = {}
    _fields: ClassVar[frozenset[str]]
    _defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        cls._fields = frozenset(cls.__annotations__)
        cls._defaults = {name: cls.__dict__[name] for name in cls._fields & cls.__dict__.keys()}
        if cls.code in Message.by_code:
            raise TypeError(f"{cls.__name__} uses code {cls.code} of {Message.by_code[cls.code].__name__}")
        Message.by_code[cls.code] = cls

    def __init__(self, **fields: Any) -> None:
        fields = self._defaults | fields
        if fields.keys() != self._fields:
            wrong = sorted(fields.keys() ^ self._fields)
            raise TypeError(f"{type(self).__name__}: fields missing or unknown: {', '.join(wrong)}")
        self.fields = fields

    def diagnostic(self) -> Diagnostic:
        return Diagnostic(
            self.code,
            self.title.format(**self.fields),
            tuple(dict.fromkeys(self._labels())),  # unrolled statements repeat a label at one place
            self._optional(self.note),
            self._optional(self.help),
            self._edits(),
        )

    def _labels(self) -> Iterator[Label]:
        for template in self.labels:
            span = self.fields[template.field]
            spans = span if isinstance(span, tuple | list) else (span,)
            for one in spans:
                if one is not None:
                    yield Label(one, template.text.format(**self.fields), template.primary)

    def _edits(self) -> tuple[Edit, ...]:
        """All of them or none: a partial edit is useless."""
        made = []
        for template in self.edits:
            span, text = self.fields[template.field], self._optional(template.text)
            if not isinstance(span, Span) or text is None:
                return ()
            edit = _edit(template, span, text)
            if edit is None:
                return ()
            made.append(edit)
        return tuple(made)

    def _optional(self, template: str | None) -> str | None:
        if template is None:
            return None
        from string import Formatter  # only diagnostics need it

        needed = {name for _, name, _, _ in Formatter().parse(template) if name}
        if any(self.fields[name] is None for name in needed):
            return None
        return template.format(**self.fields)


def _edit(template: EditTemplate, span: Span, text: str) -> Edit | None:
    source = span.source
    match template.where:
        case "replace":
            return Edit(span, text)
        case "before":
            return Edit(source.span(span.line, span.column, span.line, span.column), text)
        case "above":
            first = source.line(span.line)
            indent = first[: len(first) - len(first.lstrip())]
            return Edit(source.span(span.line, 1, span.line, 1), f"{indent}{text}\n")
        case "keyword":
            name, _, value = text.partition("=")
            found = re.search(rf'(,\s*)?\b{name}\s*=\s*("[^"]*"|[\w.]+)(?=\s*[,)])', source.line(span.line))
            if found is None:
                return None
            start, end = found.span(2) if value else found.span()
            return Edit(source.span(span.line, start + 1, span.line, end + 1), value)
        case "line":
            return Edit(source.span(span.line, 1, span.end_line + 1, 1), "")
        case "argument":
            before = source.line(span.line)[: span.column - 1]
            start = len(re.sub(r",?\s*(?:\w+\s*=\s*)?$", "", before)) + 1
            return Edit(source.span(span.line, start, span.end_line, span.end_column), "")


class Failure(Exception):
    """Ends a command or a call with something to report: `diagnostics` is never empty."""

    def __init__(self, *found: Message | Diagnostic) -> None:
        self.diagnostics: list[Diagnostic] = [one.diagnostic() if isinstance(one, Message) else one for one in found]
        super().__init__("; ".join(f"{one.code}: {one.title}" for one in self.diagnostics))

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickling (an error of another process): restored from its contents."""
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[Failure], args: tuple[Any, ...]) -> Failure:
    failure = kind.__new__(kind)
    failure.args = args
    return failure


# By code and place (or the title, where there is no place).
Reports = dict[tuple[str, str], Diagnostic]


class Sink:
    """Collects diagnostics; one per (code, place), so that an error reached on two paths is reported once."""

    def __init__(self) -> None:
        self._diagnostics: Reports = {}

    def report(self, message: Message) -> None:
        diagnostic = message.diagnostic()
        span = diagnostic.span
        key = (diagnostic.code, span.location() if span else diagnostic.title)
        self._diagnostics.setdefault(key, diagnostic)

    def checkpoint(self) -> Reports:
        """The reports so far, for `take_back`."""
        return dict(self._diagnostics)

    def take_back(self, checkpoint: Reports) -> None:
        """Drops what was reported since the checkpoint."""
        self._diagnostics = dict(checkpoint)

    @property
    def failed(self) -> bool:
        return bool(self._diagnostics)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """In source order; those without a place first."""
        return sorted(self._diagnostics.values(), key=_order)


def _order(diagnostic: Diagnostic) -> tuple[str, int, int, str]:
    span = diagnostic.span
    return (span.source.name, span.line, span.column, diagnostic.code) if span else ("", 0, 0, diagnostic.code)
