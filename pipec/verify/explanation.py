"""What `pipec explain proof` prints: what "proved" says of a kernel, on what it rests, and what it leaves out. docs/proof.md has more."""

from pipec.verify.network import ASSUMED, OPEN

TITLE = 'what "proved" says of a kernel'

_TEXT = """proof: {title}

"proved" stands before one line of a report: that no role waits for ever, for all sizes with the conditions named
there, if what is assumed there holds. pipec reads the barriers back from the PTX that it has just emitted, searches
for a proof, and calls the kernel proved only when a checker that knows nothing of the compiler and of the search has
accepted the proof for that text. `pipec check FILE --certificate OUT.json` writes the proof, and `pipec verify PTX
OUT.json` runs the reader and the checker alone. "checked" stands before what other checks found on the source; the
checker does not see that. "open" is what is neither proved nor refuted.

Waits for ever: a thread stands at a barrier whose phase never completes. Proved is that every wait ends with the
phase that it is meant for, that no arrival counts towards another phase than its own, and that no barrier is left
half full when all threads have ended.

With: conditions on sizes, from `assume(...)` or found by the proof. Every launch by pipec is checked for them;
whoever launches the PTX in another way has to see to them.

Always assumed of hardware
- mbarriers count arrivals and bytes as PTX says; a try_wait in a loop succeeds once its phase has completed.
- What was issued ends: copies, MMAs and the commits behind them.
- Warps are scheduled fairly, and all CTAs of a cluster are resident together.
- elect.sync elects the first lane of a warp.
- Nobody else changes, while the kernel runs, what it loads from tensors that it does not write.

Assumed where the report says so, after "if"
{assumed}

Trusted: the reader of the PTX, the checker, the line `// pipec.kernel` above the kernel (sizes from 0 to 2147483647,
conditions, the bytes that a tensor map's box holds, and which parameters belong to one tensor), ptxas, and that no
store hits a barrier or another tensor than its address was made from.

Not covered: data, that is, who may read and write which bytes when; a CTA that ends while another still signals it;
faults; results.
"""


def explanation() -> str:
    rows = [
        f"- {words}{' (a kernel that needs this is refused, or called open)' if kind in OPEN else ''}"
        for kind, words in ASSUMED.items()
    ]
    return _TEXT.format(title=TITLE, assumed="\n".join(rows))
