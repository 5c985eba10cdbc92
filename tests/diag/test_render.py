"""Each case is a source and the labels on it; the expected text is written out, so the layout can be read here."""

import json
from textwrap import dedent

import pytest

from pipec.diag.message import Diagnostic, Label
from pipec.diag.render import render_diagnostic, render_json, render_text
from pipec.source import Source, Span

RING = Source(
    "gemm.pipe",
    dedent("""\
    role load:
        pass

    role mma:
          s = ring.acquire_consumer()
          if k < valid:
              s.release()
    """),
)


def span(source: Source, text: str) -> Span:
    """From the first character of `text` in the source to its last."""
    offset = source.text.index(text)
    line, column = source.text.count("\n", 0, offset) + 1, offset - source.text.rfind("\n", 0, offset)
    end = offset + len(text)
    return source.span(line, column, source.text.count("\n", 0, end) + 1, end - source.text.rfind("\n", 0, end))


def render(*labels: Label, note: str | None = None, help: str | None = None, title: str = "something is wrong") -> str:
    return render_diagnostic(Diagnostic("E0303", title, labels, note, help))


def primary(source: Source, text: str, label: str = "wrong") -> Label:
    return Label(span(source, text), label, True)


def secondary(source: Source, text: str, label: str = "why") -> Label:
    return Label(span(source, text), label, False)


def expect(actual: str, expected: str) -> None:
    assert actual == dedent(expected).lstrip("\n")


def test_the_sample_of_the_style_guide():
    actual = render(
        primary(RING, "k < valid", "released if this is true, but not if it is false"),
        secondary(RING, "s.release()", "released on this path"),
        secondary(RING, "s = ring"[:1], "stage obtained here"),
        title="stage `s` is released on only one branch",
        note="the other path leaves its slot full for ever: with 4 stages the producer blocks in iteration 5",
        help="move `s.release()` below the `if`",
    )
    assert actual.splitlines()[:3] == [
        "error[E0303]: stage `s` is released on only one branch",
        "  --> gemm.pipe:6:10",
        "   |",
    ]


def test_labels_in_source_order():
    actual = render(
        primary(RING, "k < valid", "released if this is true"),
        secondary(RING, "s.release()", "released on this path"),
        secondary(RING, "ring.acquire_consumer()", "obtained here"),
        note="a note",
        help="a help\nin two lines",
    )
    expect(
        actual,
        """
        error[E0303]: something is wrong
          --> gemm.pipe:6:10
           |
         5 |       s = ring.acquire_consumer()
           |           ----------------------- obtained here
         6 |       if k < valid:
           |          ^^^^^^^^^ released if this is true
         7 |           s.release()
           |           ----------- released on this path
           |
           = note: a note
           = help: a help
                   in two lines
        """,
    )


def test_distant_lines_leave_a_gap_and_one_line_between_is_shown():
    expect(
        render(primary(RING, "s.release()"), secondary(RING, "role load", "role")),
        """
        error[E0303]: something is wrong
          --> gemm.pipe:7:11
           |
         1 | role load:
           | --------- role
        ...
         7 |           s.release()
           |           ^^^^^^^^^^^ wrong
        """,
    )
    expect(
        render(primary(RING, "s.release()"), secondary(RING, "ring", "ring")),
        """
        error[E0303]: something is wrong
          --> gemm.pipe:7:11
           |
         5 |       s = ring.acquire_consumer()
           |           ---- ring
         6 |       if k < valid:
         7 |           s.release()
           |           ^^^^^^^^^^^ wrong
        """,
    )


def test_several_labels_on_one_line():
    line = Source("k.pipe", "mma(acc, s.a, s.b)\n")
    expect(
        render(primary(line, "s.a", "of type bf16"), secondary(line, "s.b", "of type i8"), secondary(line, "acc", "adds up f32")),
        """
        error[E0303]: something is wrong
          --> k.pipe:1:10
           |
         1 | mma(acc, s.a, s.b)
           |     ---  ^^^  --- of type i8
           |     |    |
           |     |    of type bf16
           |     adds up f32
        """,
    )


def test_overlapping_labels_on_one_line():
    line = Source("k.pipe", "store(d[0, 0], cast[bf16](acc))\n")
    expect(
        render(primary(line, "acc", "not held here"), secondary(line, "cast[bf16](acc)", "read by this")),
        """
        error[E0303]: something is wrong
          --> k.pipe:1:27
           |
         1 | store(d[0, 0], cast[bf16](acc))
           |                -----------^^^-
           |                |          |
           |                |          not held here
           |                read by this
        """,
    )


def test_two_labels_at_the_same_place():
    line = Source("k.pipe", "s.release()\n")
    expect(
        render(primary(line, "s.release()", "released again"), secondary(line, "s.release()", "in the next iteration")),
        """
        error[E0303]: something is wrong
          --> k.pipe:1:1
           |
         1 | s.release()
           | ^^^^^^^^^^^
           | |
           | released again
           | in the next iteration
        """,
    )


MULTI = Source("k.pipe", "x = 1\np = Pipeline(\n    a,\n    stages=4,\n)\nq = p\n")


def test_a_label_over_several_lines():
    text = MULTI.text[MULTI.text.index("Pipeline(") : MULTI.text.index("q = p") - 1]
    expect(
        render(primary(MULTI, text, "declared here"), secondary(MULTI, "stages=4", "four stages")),
        """
        error[E0303]: something is wrong
          --> k.pipe:2:5
           |
         2 |   p = Pipeline(
           |  _____^
         3 | |     a,
         4 | |     stages=4,
           | |     -------- four stages
         5 | | )
           | |_^ declared here
        """,
    )


def test_two_labels_over_several_lines():
    outer = MULTI.text[MULTI.text.index("p = ") : MULTI.text.index("q = p") - 1]
    inner = MULTI.text[MULTI.text.index("a,") : MULTI.text.index(",\n)")]
    expect(
        render(primary(MULTI, outer, "outer"), secondary(MULTI, inner, "inner")),
        """
        error[E0303]: something is wrong
          --> k.pipe:2:1
           |
         2 |     p = Pipeline(
           |  ___^
         3 | |       a,
           | |  _____-
         4 | | |     stages=4,
           | | |____________- inner
         5 | |   )
           | |___^ outer
        """,
    )


def test_the_middle_of_a_long_label_is_cut():
    source = Source("k.pipe", "".join(f"line{number}\n" for number in range(1, 13)))
    expect(
        render(Label(source.span(2, 1, 11, 7), "all of it", True)),
        """
        error[E0303]: something is wrong
           --> k.pipe:2:1
            |
          2 |   line2
            |  _^
          3 | | line3
        ...
         11 | | line11
            | |______^ all of it
        """,
    )


def test_tabs_and_wide_characters():
    source = Source("k.pipe", "\ts.release()\t# 解放\n名 = 1\n")
    expect(
        render(primary(source, "s.release()"), secondary(source, "解放", "comment"), secondary(source, "= 1", "value")),
        """
        error[E0303]: something is wrong
          --> k.pipe:1:2
           |
         1 |     s.release()    # 解放
           |     ^^^^^^^^^^^      ---- comment
           |     |
           |     wrong
         2 | 名 = 1
           |    --- value
        """,
    )


def test_combining_and_control_characters():
    source = Source("k.pipe", "e\N{COMBINING ACUTE ACCENT}\x1b[31m x\n")
    expect(
        render(primary(source, "x")),
        """
        error[E0303]: something is wrong
          --> k.pipe:1:9
           |
         1 | e\N{COMBINING ACUTE ACCENT}\N{REPLACEMENT CHARACTER}[31m x
           |        ^ wrong
        """,
    )


@pytest.mark.parametrize("text", ["kernel", "kernel\n", "kernel\n\n"])
def test_end_of_file(text):
    source = Source("k.pipe", text)
    actual = render(Label(source.span(1, 7, 1, 7), "expected a name", True))
    assert actual.splitlines()[-2:] == [" 1 | kernel", "   |       ^ expected a name"]


def test_a_line_past_the_end():
    source = Source("k.pipe", "kernel\n")
    assert render(Label(source.span(2, 1, 2, 1), "expected a body", True)).splitlines()[-2:] == [" 2 |", "   | ^ expected a body"]


def test_empty_source():
    source = Source("k.pipe", "")
    assert render(Label(source.span(1, 1, 1, 1), "no kernel", True)).splitlines()[-2:] == [" 1 |", "   | ^ no kernel"]


def test_no_place():
    assert render(note="a note") == "error[E0303]: something is wrong\n   = note: a note\n"


def test_embedded_source_keeps_the_numbers_of_the_python_file():
    source = Source("train.py", "kernel gemm():\n    s.release()\n", first_line=98, indent=4)
    expect(
        render(primary(source, "s.release()"), secondary(source, "gemm", "kernel")),
        """
        error[E0303]: something is wrong
           --> train.py:99:9
            |
         98 |     kernel gemm():
            |            ---- kernel
         99 |         s.release()
            |         ^^^^^^^^^^^ wrong
        """,
    )


def test_labels_in_two_files():
    other = Source("lib.pipe", "fn helper(s):\n")
    expect(
        render(secondary(other, "helper", "inlined from here"), primary(RING, "s.release()")),
        """
        error[E0303]: something is wrong
          --> gemm.pipe:7:11
           |
         7 |           s.release()
           |           ^^^^^^^^^^^ wrong
          ::: lib.pipe:1:4
           |
         1 | fn helper(s):
           |    ------ inlined from here
        """,
    )


def test_a_very_long_line_is_cut_around_the_label():
    source = Source("k.pipe", "x" * 5000 + " here " + "y" * 5000 + "\n")
    row, under = render(primary(source, "here")).splitlines()[-2:]
    assert len(row) < 200
    assert row[under.index("^") :].startswith("here")


def test_json():
    diagnostic = Diagnostic("E0303", "title", (primary(RING, "k < valid"), secondary(RING, "s.release()")), "note", None)
    (line,) = render_json([diagnostic]).splitlines()
    parsed = json.loads(line)
    assert parsed["code"] == "E0303" and parsed["note"] == "note" and parsed["help"] is None
    assert parsed["labels"][0] == {
        "file": "gemm.pipe",
        "line": 6,
        "column": 10,
        "end_line": 6,
        "end_column": 19,
        "primary": True,
        "text": "wrong",
    }


def test_several_diagnostics_are_separated():
    diagnostic = Diagnostic("E0101", "title", (), None, None)
    assert render_text([diagnostic, diagnostic]) == "error[E0101]: title\n\nerror[E0101]: title\n"
    assert render_text([]) == ""
