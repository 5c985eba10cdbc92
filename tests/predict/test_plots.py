"""The plots of docs/time.md are those of the figures on record."""

import json
import re
from pathlib import Path
from xml.dom.minidom import parseString

from benchmarks.prediction.plots import HEIGHT, PLOTS, WIDTH, plots

RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "predict.json"


def test_the_plots_are_those_of_the_record() -> None:
    drawn = plots(json.loads(RECORD.read_text(encoding="utf-8"))["figures"])
    assert {path.name for path in PLOTS.glob("*.svg")} == set(drawn)
    for name, text in drawn.items():
        assert (PLOTS / name).read_text(encoding="utf-8") == text
        parseString(text)
        places = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([^"]+)" cy="([^"]+)"', text)]
        assert len(places) > 300 and all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in places)
