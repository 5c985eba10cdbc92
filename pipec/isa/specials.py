"""The hardware values that a kernel may read, one row each (PTX ISA 10)."""

from typing import Literal

from pipec.record import record
from pipec.vocabulary import Axis

AXES: tuple[Axis, Axis, Axis] = ("x", "y", "z")


Shared = Literal["cta", "cluster", "launch"]


@record
class Special:
    """`name` is the language's; `llvm` the suffix of the intrinsic; `ptx` the register. `varies`: the scope in which all threads read
    the same value: "cta", "cluster" (the CTAs of one cluster agree) or "launch"."""

    name: str
    llvm: str
    ptx: str
    varies: Shared


_FAMILIES: tuple[tuple[str, str, Shared], ...] = (
    ("block", "ctaid", "cta"),  # this CTA in the grid
    ("grid", "nctaid", "launch"),  # CTAs in the grid
    ("cta", "cluster.ctaid", "cta"),  # this CTA in its cluster
    ("cluster", "clusterid", "cluster"),  # this cluster in the grid
    ("clusters", "nclusterid", "launch"),  # clusters in the grid
)

_ROWS = (
    *(
        Special(f"{family}.{axis}", f"{llvm}.{axis}", f"%{llvm.replace('.', '_')}.{axis}", varies)
        for family, llvm, varies in _FAMILIES
        for axis in AXES
    ),
    Special("cta.rank", "cluster.ctarank", "%cluster_ctarank", "cta"),
)


def family_and_axis(name: str) -> tuple[str, str]:
    """Of `block.x`, "block" and "x"; the second is empty for values without an axis, such as `lane_id`."""
    family, _, axis = name.partition(".")
    return family, axis


SPECIALS: dict[str, Special] = {row.name: row for row in _ROWS}
# The members of each first name. `cta.leader` is `cta.rank % 2 == 0`.
MEMBERS: dict[str, tuple[str, ...]] = {
    family: (*AXES, "rank", "leader") if family == "cta" else AXES for family, _, _ in _FAMILIES
}
