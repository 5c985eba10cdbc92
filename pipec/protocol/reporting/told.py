"""Which conditions of launches a report names: not those that all sizes satisfy."""

from collections.abc import Mapping, Sequence

from pipec.interface import KernelInterface, ScalarArgument, TensorArgument
from pipec.verify.condition_text import conditions_words
from pipec.verify.conditions import GRID
from pipec.verify.data import formula_of
from pipec.verify.terms import RANGES, Apply, Atom, Both, Choose, Compare, Either, Floor, Formula, Linear, Product, Symbol, atom

_MOST = (1 << 31) - 1  # of a size, and of blocks
_Range = tuple[int, int]  # inclusive
_Ranges = Mapping[str, _Range]


def conditions_told(interface: KernelInterface) -> str:
    """The conditions on sizes in words; empty if there are none to be told."""
    ranges = _ranges(interface)
    conditions = [formula_of(one) for one in interface.conditions]
    open_ = [one for one in conditions if not _is_obvious(one, ranges)]
    # A condition says, too, that the kernel can compute the products in it: that is to be told by another one.
    computed = {product for one in open_ if isinstance(one, Compare) for product in _products(one)}
    return conditions_words(one for one in conditions if one in open_ or not computed.issuperset(_products(one)))


def _ranges(interface: KernelInterface) -> dict[str, _Range]:
    """Of what conditions speak of."""
    found: dict[str, _Range] = dict.fromkeys(GRID, (1, _MOST))
    for row in interface.arguments:
        if isinstance(row, TensorArgument):
            found |= {size: (0, _MOST) for size in row.shape if isinstance(size, str)}
        elif isinstance(row, ScalarArgument) and (kind := row.dtype.replace("i", "s")) in RANGES:
            found[row.name] = RANGES[kind]
    return found


def _is_obvious(condition: Formula, ranges: _Ranges) -> bool:
    """Whether all sizes satisfy it of which the kernel can compute the products in it."""
    if not isinstance(condition, Compare) or condition.relation != "ge":
        return False
    found = _range(condition.form, ranges)
    return found is not None and found[0] >= 0


def _range(form: Linear, ranges: _Ranges) -> _Range | None:
    """None where something is not known."""
    least = most = form.constant
    for one, times in form.terms:
        found = _of(one, ranges)
        if found is None:
            return None
        ends = sorted(times * end for end in found)
        least, most = least + ends[0], most + ends[1]
    return least, most


def _of(one: Atom, ranges: _Ranges) -> _Range | None:
    match one:
        case Symbol(name):
            return ranges.get(name)
        case Floor(form, divisor):
            found = _range(form, ranges)
            return None if found is None else (found[0] // divisor, found[1] // divisor)
        case Choose(_, yes, no):
            left, right = _range(yes, ranges), _range(no, ranges)
            return None if left is None or right is None else (min(left[0], right[0]), max(left[1], right[1]))
        case Product(factors):
            return _product([_of(each, ranges) for each in factors])
        case Apply(function, (left, right)) if function.startswith("mul.lo."):
            least, most = RANGES[function.rpartition(".")[2]]
            exact = _product([_range(left, ranges), _range(right, ranges)])
            return None if exact is None else (max(exact[0], least), min(exact[1], most))
        case Apply():
            return None


def _product(factors: Sequence[_Range | None]) -> _Range | None:
    least = most = 1
    for one in factors:
        if one is None:
            return None
        ends = [left * right for left in (least, most) for right in one]
        least, most = min(ends), max(ends)
    return least, most


def _products(condition: Formula) -> set[Apply]:
    """Those that the kernel computes."""
    match condition:
        case Compare(_, form):
            return _products_in(form)
        case Both(parts) | Either(parts):
            return {product for part in parts for product in _products(part)}


def _products_in(form: Linear) -> set[Apply]:
    found: set[Apply] = set()
    for one, _ in form.terms:
        match one:
            case Floor(inner, _):
                found |= _products_in(inner)
            case Choose(condition, yes, no):
                found |= _products(condition) | _products_in(yes) | _products_in(no)
            case Product(factors):
                found |= {product for factor in factors for product in _products_in(atom(factor))}
            case Apply(_, arguments):
                found |= {one, *(product for each in arguments for product in _products_in(each))}
            case Symbol():
                pass
    return found
