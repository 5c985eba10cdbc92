"""A timeline as one self-contained HTML file: tracks by block and role, zoom and pan, a description of the item under the pointer."""

import json
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from pipec.api.files import write_output
from pipec.diag.catalogue.commands.run import UnknownTimeline
from pipec.diag.message import Failure
from pipec.predict.following.uses import Stretch

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>%(title)s</title>
<style>
  :root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --rule: #d5dae0; }
  @media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --paper: #15181c; --rule: #343a42; } }
  body { margin: 0; font: 13px/1.4 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
  header { padding: 8px 12px; display: flex; gap: 16px; align-items: baseline; flex-wrap: wrap; }
  h1 { font-size: 14px; margin: 0; }
  canvas { display: block; width: 100%%; cursor: grab; border-top: 1px solid var(--rule); }
  #said { min-height: 1.4em; font-variant-numeric: tabular-nums; }
  button { font: inherit; }
  .key i { display: inline-block; width: 14px; height: 10px; margin-right: 4px; }
</style>
<header>
  <h1>%(title)s</h1>
  <span>wheel: zoom &nbsp; drag: move</span>
  <button id="whole">whole</button>
  <span class="key" id="waits"><i style="background: rgba(128,128,128,.35)"></i>waits</span>
  <span class="key" id="critical"><i style="outline: 2px solid #d33; outline-offset: -2px"></i>on the critical path</span>
  <span id="said"></span>
</header>
<canvas id="picture"></canvas>
<script type="application/json" id="events">%(events)s</script>
<script>
"use strict";
const record = JSON.parse(document.getElementById("events").textContent), events = record.traceEvents.filter(e => e.ph === "X");
const unit = record.otherData?.unit ?? "us";
const canvas = document.getElementById("picture"), pen = canvas.getContext("2d"), said = document.getElementById("said");
const blocks = [...new Set(events.map(e => e.pid))];
const tracks = [...new Map(events.map(e => [e.pid + "/" + e.tid, {pid: e.pid, tid: e.tid}])).values()]
  .sort((a, b) => blocks.indexOf(a.pid) - blocks.indexOf(b.pid));
const place = new Map(tracks.map((t, i) => [t.pid + "/" + t.tid, i]));
const end = events.reduce((latest, e) => Math.max(latest, e.ts + e.dur), 1e-9);
const names = [...new Set(events.map(e => e.name))];
const ROW = 22, HEAD = 24, FONT = "11px system-ui, sans-serif";
pen.font = FONT;
const title = t => `${t.pid}  ${t.tid}`, LEFT = Math.ceil(Math.max(150, ...tracks.map(t => pen.measureText(title(t)).width + 20)));
document.getElementById("waits").hidden = !names.some(name => name.startsWith("wait"));
document.getElementById("critical").hidden = !events.some(e => e.args?.critical);
let from = 0, to = end;

function colour(name) {
  if (name.startsWith("wait")) return "rgba(128,128,128,.35)";
  return `hsl(${(names.indexOf(name) * 137.5 + 200) %% 360} 55%% 55%%)`;
}
function x(time) { return LEFT + (time - from) / (to - from) * (canvas.clientWidth - LEFT); }
function draw() {
  const scale = devicePixelRatio || 1, width = canvas.clientWidth, height = HEAD + tracks.length * ROW + 8;
  canvas.style.height = height + "px";
  canvas.width = width * scale; canvas.height = height * scale;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  const ink = getComputedStyle(document.body).color;
  pen.clearRect(0, 0, width, height);
  pen.font = FONT; pen.textBaseline = "middle";
  const step = 10 ** Math.floor(Math.log10((to - from) / 4)), every = step * ((to - from) / step > 10 ? 2 : 1);
  pen.fillStyle = ink; pen.strokeStyle = "rgba(128,128,128,.3)";
  for (let t = Math.ceil(from / every) * every; t <= to; t += every) {
    pen.beginPath(); pen.moveTo(x(t), HEAD - 6); pen.lineTo(x(t), height); pen.stroke();
    const label = `${+t.toPrecision(6)} ${unit}`;
    if (x(t) + 3 + pen.measureText(label).width <= width) pen.fillText(label, x(t) + 3, 10);
  }
  for (const e of events) {
    const a = Math.max(x(e.ts), LEFT), b = Math.min(x(e.ts + e.dur), width);
    if (b < LEFT || a > width) continue;
    const top = HEAD + place.get(e.pid + "/" + e.tid) * ROW;
    pen.fillStyle = colour(e.name); pen.fillRect(a, top + 2, Math.max(b - a, .6), ROW - 4);
    if (e.args && e.args.critical) {
      pen.strokeStyle = "#d33"; pen.lineWidth = 2;
      pen.strokeRect(a, top + 2, Math.max(b - a, .6), ROW - 4);
      pen.lineWidth = 1;
    }
    if (b - a > 30 && pen.measureText(e.name).width < b - a - 6) { pen.fillStyle = ink; pen.fillText(e.name, a + 4, top + ROW / 2); }
  }
  pen.clearRect(0, 0, LEFT, height); pen.fillStyle = ink;
  tracks.forEach((t, i) => pen.fillText(title(t), 8, HEAD + i * ROW + ROW / 2));
  document.body.dataset.drawn = String(events.length);
  document.body.dataset.window = `${from} ${to}`;
}
function under(event) {
  const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, row = Math.floor((event.clientY - box.top - HEAD) / ROW);
  const time = from + (px - LEFT) / (box.width - LEFT) * (to - from);
  return {time, hit: events.find(e => place.get(e.pid + "/" + e.tid) === row && e.ts <= time && time <= e.ts + e.dur)};
}
canvas.addEventListener("wheel", event => {
  event.preventDefault();
  const {time} = under(event), factor = event.deltaY > 0 ? 1.25 : .8;
  const span = Math.min(end, (to - from) * factor), part = (time - from) / (to - from);
  from = Math.max(0, Math.min(end - span, time - part * span)); to = from + span; draw();
}, {passive: false});
let held = null;
canvas.addEventListener("pointerdown", event => { held = {x: event.clientX, from, to}; canvas.setPointerCapture(event.pointerId); });
canvas.addEventListener("pointerup", () => { held = null; });
canvas.addEventListener("pointermove", event => {
  if (held) {
    const moved = (held.x - event.clientX) / (canvas.clientWidth - LEFT) * (held.to - held.from), span = held.to - held.from;
    from = Math.max(0, Math.min(end - span, held.from + moved)); to = from + span; draw();
    return;
  }
  const {hit} = under(event), short = (time, digits) => +time.toPrecision(digits);
  said.textContent = hit
    ? `${hit.tid}: ${hit.name}, ${short(hit.ts, 6)} to ${short(hit.ts + hit.dur, 6)} ${unit} (${short(hit.dur, 4)} ${unit})` : "";
});
document.getElementById("whole").addEventListener("click", () => { from = 0; to = end; draw(); });
addEventListener("resize", draw);
draw();
</script>
</html>
"""


_PAGES, _TRACES = ".html", ".json"


def check_timeline(output: str | None) -> None:
    """Before anything is computed for it. Raises Failure for a name whose ending says neither a page nor JSON."""
    if output is None or output == "-" or output.lower().endswith((_PAGES, _TRACES)) or _is_stream(output):
        return
    ending = Path(output).suffix
    problem = f"`{ending}` is neither a page nor JSON" if ending else "it has no ending that says what to write"
    stem = output.removesuffix(ending)
    raise Failure(UnknownTimeline(name=output, problem=problem, page=stem + _PAGES, trace=stem + _TRACES))


def _is_stream(output: str) -> bool:
    """A device or a pipe, whose name says nothing about what is written there."""
    path = Path(output)
    return path.exists() and not path.is_file() and not path.is_dir()


def write_timeline(output: str, trace_events: str) -> None:
    """As a page if the name ends in `.html`, else as JSON."""
    write_output(output, page(trace_events) if output.lower().endswith(_PAGES) else trace_events)


def page(trace_events: str, title: str = "pipec timeline") -> str:
    """`trace_events`: Chrome and Perfetto JSON with complete events (`ph` "X"); in microseconds unless `otherData` specifies a unit."""
    # Inside a script element only "</" and "<!--" could end the text early.
    return _PAGE % {"title": escape(title), "events": trace_events.replace("<", "\\u003c")}


def trace(kernels: Iterable[tuple[str, float, Sequence[Stretch]]], unit: str = "us") -> str:
    """The same JSON for predictions: (kernel, cycles per second, stretches), roles before the engines."""
    events = [
        {
            "ph": "X",
            "pid": f"{kernel} block {one.block}",
            "tid": lane,
            "name": one.what,
            "ts": one.start / clock * 1e6,
            "dur": (one.end - one.start) / clock * 1e6,
            "args": {"critical": one.critical},
        }
        for kernel, clock, stretches in kernels
        for one, lane in _in_lanes(stretches)
    ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"unit": unit}}) + "\n"


_ENGINES = ("copies", "products", "stores")


def _in_lanes(stretches: Sequence[Stretch]) -> Iterator[tuple[Stretch, str]]:
    """Each with its track, or one of several beside each other where warpgroups of a role do different things at the same time: in the
    format, what overlaps on one track must be nested."""
    tracks: dict[tuple[int, bool, str], list[Stretch]] = {}
    for one in stretches:
        tracks.setdefault((one.block, one.track in _ENGINES, one.track), []).append(one)
    for (_, _, track), items in sorted(tracks.items(), key=lambda item: item[0][:2]):
        lanes: list[tuple[float, list[Stretch]]] = []
        for one in sorted(items, key=lambda one: one.start):
            free = (place for place, (end, _) in enumerate(lanes) if end <= one.start + _ROUNDING)
            place = next(free, len(lanes))
            if place == len(lanes):
                lanes.append((0.0, []))
            lanes[place][1].append(one)
            lanes[place] = one.end, lanes[place][1]
        for number, (_, lane) in enumerate(lanes, 1):
            yield from ((one, track if number == 1 else f"{track} ({number})") for one in lane)


_ROUNDING = 1e-3  # cycles
