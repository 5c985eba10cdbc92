"""Which tensors a kernel writes: what is loaded from another one is the same whenever it is loaded."""

from collections.abc import Collection

from pipec.verify.reader.text.statements import Kernel, registers

_STORES = ("st.", "red.", "atom.", "cp.async.bulk", "cp.reduce.async.bulk", "multimem.", "st.async")


def _stores(opcode: str) -> bool:
    """Whether it may write global memory."""
    if not opcode.startswith(_STORES) or "shared::cluster.global" in opcode or "shared::cta.global" in opcode:
        return False
    return ".shared" not in opcode or ".global" in opcode


class Writes:
    """Looked for on demand: the parameters from which the addresses of stores come."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._written: frozenset[str] | None = None

    def spares(self, parameter: str) -> bool:
        """Whether no store goes through the parameter (and none to an address that itself was loaded)."""
        if self._written is None:
            self._written = self._search()
        return parameter not in self._written and "" not in self._written

    def only_at(self, parameter: str, lines: set[int]) -> bool:
        """Whether stores through the parameter stand at these lines alone."""
        elsewhere = self._search(lines)
        return parameter not in elsewhere and "" not in elsewhere

    def _search(self, except_at: Collection[int] = ()) -> frozenset[str]:
        """Parameters that reach the address of a store, by whatever instructions; "" if an address may come from memory."""
        sources: dict[str, set[str]] = {}
        work: list[str] = []
        for one in self.kernel.code:
            if not one.operands:
                continue
            if _stores(one.opcode) and one.line not in except_at:
                work += registers(one.operands[0]) + (registers(one.operands[-1]) if "bulk" in one.opcode else [])
            if one.opcode.startswith("ld.") and "param" not in one.parts:
                # A number from memory is no address; what is as wide as one may be.
                found = [""] if one.parts[-1] in ("b64", "u64", "s64") else []
            else:
                found = registers(one.text)
            for name in one.first:
                sources.setdefault(name, set()).update(found)
        seen: set[str] = set()
        while work:
            name = work.pop()
            if name not in seen:
                seen.add(name)
                work += sources.get(name, ())
        return frozenset(name for name in seen if name in self.kernel.parameters or not name)
