"""Which clusters of a PTX kernel are granted by cluster launch control: in steps of the number that run concurrently, assuming equal
durations. The scheduler's responses, which a network leaves open, become forms of launch values."""

from pipec.record import replace
from pipec.verify.network import Arrive, Edge, Network, State, Test, Wait
from pipec.verify.terms import (
    Apply,
    Atom,
    Both,
    Choose,
    Compare,
    Either,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    both,
    choose,
    either,
    product,
    scale,
)

AT_ONCE = Symbol("%clusters_at_once")
LAUNCHED = Symbol("%clusters_launched")


def answered(network: Network, cluster: tuple[int, int, int]) -> Network | None:
    """The network with known responses, if anything depends on one; `cluster`: its CTAs along x, y and z."""
    answers = _Answers(cluster[0])
    processes = tuple(
        replace(process, states=tuple(map(answers.state, process.states))) for process in network.processes
    )  # fmt: skip
    return replace(network, processes=processes) if answers.found else None


class _Answers:
    def __init__(self, extent: int) -> None:
        self._extent = extent
        self.found = False

    def state(self, state: State) -> State:
        match state.action:
            case Test(condition=condition, yes=yes, no=no):
                action = Test(self._formula(condition), self._edge(yes), self._edge(no))
                return replace(state, action=action)
            case Wait() | Arrive() as signal:
                return replace(state, action=replace(signal, edge=self._edge(signal.edge)))
            case _:
                return state

    def _edge(self, edge: Edge) -> Edge:
        return replace(edge, values=tuple((symbol, value and self._form(value)) for symbol, value in edge.values))

    def _formula(self, formula: Formula) -> Formula:
        match formula:
            case Compare(relation, form):
                return Compare(relation, self._form(form))
            case Both(parts):
                return both(*map(self._formula, parts))
            case Either(parts):
                return either(*map(self._formula, parts))

    def _form(self, form: Linear) -> Linear:
        made = Linear(form.constant)
        for one, times in form.terms:
            made = add(made, self._atom(one), times)
        return made

    def _atom(self, one: Atom) -> Linear:
        match one:
            case Apply(question, (Linear(0, ((Apply(answer, (use,)), 1),)),)) if answer.startswith("answer "):
                self.found = True
                # The first cluster starts by itself, so that the response of the first use is the second tile.
                turn = add(atom(Symbol("%clusterid.x")), product(add(use, Linear(1)), atom(AT_ONCE)))
                if question == "is_canceled":  # in PTX's terms: the launch of that cluster is cancelled, and its tiles are ours
                    one_more = Compare("ge", add(atom(LAUNCHED), add(turn, Linear(1)), -1))
                    return choose(one_more, Linear(1), Linear(0))
                return scale(turn, self._extent) if question.endswith("::x.ctaid") else Linear(0)
            case Choose(condition, yes, no):
                return choose(self._formula(condition), self._form(yes), self._form(no))
            case _:
                return atom(one)
