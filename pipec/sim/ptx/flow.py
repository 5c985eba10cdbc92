"""Control flow of a kernel: where diverged lanes reconverge (immediate post-dominators)."""

from __future__ import annotations

from collections.abc import Sequence

NOWHERE = -1


def reconvergence_points(successors: Sequence[Sequence[int]]) -> dict[int, int]:
    """For each instruction with several successors, the instruction where all its paths join, or NOWHERE.

    `successors[i]` lists instruction indices; the index len(successors) is the kernel's exit. Instructions that can never reach the exit
    (endless loops, traps) are ignored.
    """
    leaders, edges = _blocks(successors)
    parents = _post_dominators(edges, exit_block=len(leaders))
    points = {}
    for block, _ in enumerate(leaders):
        last = (leaders[block + 1] if block + 1 < len(leaders) else len(successors)) - 1
        # Lanes diverge only here.
        if len(set(successors[last])) > 1:
            parent = parents.get(block)
            points[last] = leaders[parent] if parent is not None and parent < len(leaders) else NOWHERE
    return points


def _blocks(successors: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    count = len(successors)
    starts = {0} if count else set()
    for index, targets in enumerate(successors):
        if list(targets) != [index + 1]:
            starts.update(target for target in targets if target < count)
            if index + 1 < count:
                starts.add(index + 1)
    leaders = sorted(starts)
    block_of = {leader: number for number, leader in enumerate(leaders)}
    block_of[count] = len(leaders)
    edges = []
    for number, _ in enumerate(leaders):
        last = (leaders[number + 1] if number + 1 < len(leaders) else count) - 1
        edges.append([block_of[target] for target in successors[last]])
    return leaders, edges


def _post_dominators(edges: list[list[int]], exit_block: int) -> dict[int, int]:
    """Cooper, Harvey and Kennedy's algorithm on the reversed graph."""
    predecessors: list[list[int]] = [[] for _ in range(exit_block + 1)]
    for block, targets in enumerate(edges):
        for target in targets:
            predecessors[target].append(block)
    order = _postorder(predecessors, exit_block)
    rank = {block: position for position, block in enumerate(order)}
    parent = {exit_block: exit_block}

    def meet(a: int, b: int) -> int:
        while a != b:
            while rank[a] < rank[b]:
                a = parent[a]
            while rank[b] < rank[a]:
                b = parent[b]
        return a

    changed = True
    while changed:
        changed = False
        for block in reversed(order):
            if block == exit_block:
                continue
            # Blocks that are not ordered yet contribute nothing so far; endless loops never will.
            known = [target for target in edges[block] if target in parent]
            if not known:
                continue
            best = known[0]
            for other in known[1:]:
                best = meet(best, other)
            if parent.get(block) != best:
                parent[block], changed = best, True
    return parent


def _postorder(successors: list[list[int]], root: int) -> list[int]:
    seen, order, stack = {root}, [], [(root, iter(successors[root]))]
    while stack:
        node, rest = stack[-1]
        for target in rest:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(successors[target])))
                break
        else:
            order.append(node)
            stack.pop()
    return order
