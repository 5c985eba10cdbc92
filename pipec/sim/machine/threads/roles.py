"""The name of a warp in reports: its role by the kernel's metadata, else the part of the code that it alone executes.

Kernels of other compilers dispatch their warps by branches that each warp takes as a whole. Such a part is named after its label, or by
its number where a branch table has one: Triton numbers the partitions of Gluon this way.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...compiled.runner import TAKEN
from ..image import Image
from ..races.thread import Thread


def role_of(image: Image, thread: Thread, pc: int) -> str | None:
    """The role of a warp at `pc`; None where all warps of its CTA execute this code."""
    named = image.names.role(thread.index)
    if named is not None or not image.successors or image.names.roles:
        return named
    smallest: tuple[int, str] | None = None
    for branch, arm in _dispatches(image, thread):
        region = _only_through(image, branch, arm)
        if pc in region and (smallest is None or len(region) < smallest[0]):
            smallest = len(region), _name(image, branch, arm)
    return smallest[1] if smallest else None


def who(image: Image, thread: Thread, pc: int) -> str:
    role = role_of(image, thread, pc)
    return f"role `{role}` (warp {thread.index})" if role else thread.who


def _dispatches(image: Image, thread: Thread) -> list[tuple[int, int]]:
    """The branches that this warp took as a whole and others of its CTA took in another direction: (branch, target taken)."""
    found = []
    for branch, number in image.branches.items():
        routes = {int(peer.routes[number]) for peer in thread.peers} - {0}
        if thread.routes[number] and len(routes) > 1 and -1 not in routes:
            found.append((branch, int(thread.routes[number]) - TAKEN))
    return found


def _only_through(image: Image, branch: int, arm: int) -> set[int]:
    """The instructions that are reachable from `branch` only through this arm."""
    # Every finding asks for both sides, before it is known to be one of many; hence the cache.
    found = image.regions.get((branch, arm))
    if found is None:
        following = set(image.successors[branch])
        others = set().union(*(_reached(image.successors, other, branch) for other in following - {arm}))
        found = image.regions[branch, arm] = _reached(image.successors, arm, branch) - others
    return found


def _reached(successors: Sequence[Sequence[int]], start: int, avoided: int) -> set[int]:
    found, work = set[int](), [start]
    while work:
        index = work.pop()
        if index in found or index == avoided or index >= len(successors):
            continue
        found.add(index)
        work += successors[index]
    return found


def _name(image: Image, branch: int, arm: int) -> str:
    labels = [name for (_, name), index in image.function.labels.items() if index == arm]
    if _is_table(image, branch):
        table = list(image.successors[branch])
        return f"partition {table.index(arm)}"
    # The warps that bypass Triton's partition table.
    elsewhere = set().union(*(_only_through(image, branch, other) for other in set(image.successors[branch]) - {arm}))
    if any(_is_table(image, index) for index in elsewhere):
        return "default partition"
    first = image.item(arm)
    return labels[0] if labels else f"from PTX line {first.line if first else 0}"


def _is_table(image: Image, index: int) -> bool:
    item = image.item(index)
    return item is not None and item.root == "brx"
