"""The text of `pipec explain proof`: what "proved" means for a kernel, its assumptions and exclusions. docs/proof.md has more."""

from pipec.verify.network import ASSUMED, OPEN

TITLE = 'what "proved" says about a kernel'

_TEXT = """proof: {title}

"proved" marks one line of a report. It says that no role waits for ever, for all sizes that meet the conditions
named there, provided that the assumptions named there hold. pipec reads the barriers back from the PTX that it has
just emitted, searches for a proof, and calls the kernel proved only when a checker that imports nothing of the
compiler or of the search has accepted the proof for that text. `pipec check FILE --certificate OUT.json` writes the
proof, and `pipec verify PTX OUT.json` runs the reader and the checker alone. "checked" marks what other checks found
on the source; the checker of proofs does not see that. "open" marks what is neither proved nor refuted.

A thread waits for ever if it stands at a barrier whose phase never completes. The proof says that every wait ends
with the phase that it is meant for, that no arrival counts towards a phase other than its own, and that no barrier is
left half full when all threads have ended.

Conditions on sizes come from `assume(...)`, or were found to be needed by the proof. pipec checks them at every
launch; whoever launches the PTX by other means must do so too.

Always assumed of hardware
- mbarriers count arrivals and bytes as PTX says; a try_wait in a loop succeeds once its phase has completed.
  Of a parity the lowest bit counts (PTX defines only 0 and 1).
- What a thread does to barriers takes effect in its order: an arrival behind a wait comes after that wait, also where
  one of them is .relaxed, or of a scope that leaves out whoever reads data across it.
- Everything that was issued completes: copies, MMAs and the commits behind them.
- Warps are scheduled fairly, and all CTAs of a cluster are resident together.
- elect.sync elects the first lane of a warp. No variable in shared memory has the address 0.
- While the kernel runs, nobody else changes what it loads from tensors that it does not write.

Assumed where the report says so, after "if"
{assumed}

Trusted: the reader of the PTX, the checker, the line `// pipec.kernel` above the kernel (sizes from 0 to 2147483647,
conditions, the bytes in a tensor map's box, and which parameters belong to one tensor), ptxas, and that no store hits
a tensor other than the one that its address was made from.

Not covered: data, that is, who may read and write which bytes when; faults; results; the kernel with a watchdog, whose
waits give up: the proof is of the one without.
"""


def explanation() -> str:
    rows = [
        f"- {words}{' (a kernel that needs this is refused, or reported as open)' if kind in OPEN else ''}"
        for kind, words in ASSUMED.items()
    ]
    return _TEXT.format(title=TITLE, assumed="\n".join(rows))
