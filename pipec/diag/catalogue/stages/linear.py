"""E03xx: a stage that was obtained is released once on every path, and held only as long as it is used."""

from pipec.diag.message import Message, add_line_above, primary, remove_line, secondary
from pipec.source import Span


class NeverReleased(Message):
    """A stage obtained with `acquire_...()` is never released.

    Releasing a stage hands its slot to the other side: a consumer's release lets the producer fill the slot again, a
    producer's release steps on to the next slot. Without it the ring runs out of slots and both sides wait for ever.

        s = input.acquire_consumer()
        mma(acc, s.a, s.b)
                                    # wrong: nothing releases s
        s.release()                 # right

    The scoped form `with input.consume() as s:` releases by itself.
    """

    code = "E0301"
    title = "stage `{stage}` of `{pipeline}` is never released"
    labels = (primary("at", "obtained here"), secondary("end", "{ending}"))
    note = "{consequence}"
    help = "add `{release}` after its last use"
    stage: str
    release: str
    pipeline: str
    ending: str
    consequence: str
    at: Span
    end: Span | None


class ReleasedTwice(Message):
    """A stage is released a second time.

    A release signals the other side and steps on to the next slot. The second one signals a slot that this role does not hold,
    so the other side continues too early, and every later stage of this role is off by one.

        s.release()
        s.release()                 # wrong: remove it
    """

    code = "E0302"
    title = "stage `{stage}` of `{pipeline}` is released twice"
    labels = (
        primary("at", "released again here"),
        secondary("first", "first released here"),
        secondary("obtained", "obtained here"),
    )
    note = "{consequence}"
    help = "remove the second release"
    edits = (remove_line("at"),)
    stage: str
    pipeline: str
    consequence: str
    at: Span
    first: Span | None
    obtained: Span | None


class ReleasedOnOneBranch(Message):
    """A stage is released on one side of a branch and kept on the other.

    Where the two sides join, the stage would be held or not depending on the path; whatever the code does next, one path
    releases it twice or never. Release on both sides, or once, after the branch.

        if k < valid:
            s.release()             # wrong: who releases otherwise?

        if k < valid:
            mma(acc, s.a, s.b)
        s.release()                 # right
    """

    code = "E0303"
    title = "stage `{stage}` of `{pipeline}` is released on only one branch"
    labels = (
        primary("at", "released if this is {yes}, but not if it is {no}"),
        secondary("released", "released on this path"),
        secondary("obtained", "stage obtained here"),
    )
    note = "{consequence}"
    help = "move `{release}` below the `if`"
    stage: str
    pipeline: str
    yes: str
    no: str
    release: str
    consequence: str
    at: Span
    released: Span | None
    obtained: Span | None


class UsedAfterRelease(Message):
    """A stage's tile or index is used after the stage was released.

    The release gave the slot to the other side, which may fill or read it at any moment. A tile variable is a named expression
    that reads its stage where it is used, so it must be used before the release as well.

        s.release()
        mma(acc, s.a, s.b)          # wrong: use it before the release
    """

    code = "E0304"
    title = "stage `{stage}` of `{pipeline}` is used after its release"
    labels = (
        primary("at", "{use} here"),
        secondary("defined", "`{variable}` names values that are read from `{stage}` where it is used"),
        secondary("released", "released here"),
        secondary("obtained", "obtained here"),
    )
    note = "{consequence}"
    help = "{fix}"
    stage: str
    pipeline: str
    use: str
    variable: str | None
    fix: str
    consequence: str
    at: Span
    defined: Span | None
    released: Span | None
    obtained: Span | None


class CarriedOutOfLoop(Message):
    """A stage is obtained in a loop and still held when its iteration ends.

    The next iteration obtains another stage under the same name, so the first one can no longer be released. A release after
    the loop frees only the last stage, and none at all when the loop runs zero times.

        for k in range(n):
            s = input.acquire_consumer()
        s.release()                 # wrong: release inside the loop
    """

    code = "E0305"
    title = "stage `{stage}` of `{pipeline}` is carried into the next iteration"
    labels = (
        primary("at", "obtained in each iteration"),
        secondary("loop", "each iteration of this loop must release what it obtains"),
        secondary("released", "released only after the loop"),
    )
    note = "{consequence}"
    help = "move `{release}` to the end of the loop body"
    stage: str
    pipeline: str
    release: str | None
    consequence: str
    at: Span
    loop: Span
    released: Span | None


class ReleasedInsideLoop(Message):
    """A stage obtained before a loop is released inside the loop.

    Each iteration would release it again, and a loop that runs zero times would never release it. Obtain it inside the loop,
    or release it after the loop.

        s = output.acquire_mma_linear()
        for k in range(n):
            s.release()             # wrong: move it below the loop, or the acquire into it
    """

    code = "E0306"
    title = "stage `{stage}` of `{pipeline}` is obtained once but released in every iteration"
    labels = (
        primary("at", "released in each iteration"),
        secondary("loop", "this loop may run any number of times"),
        secondary("obtained", "obtained once, before the loop"),
    )
    note = "the second iteration releases a slot this role does not hold; with no iteration it is never released"
    help = "move `{release}` below the loop"
    stage: str
    pipeline: str
    release: str
    at: Span
    loop: Span
    obtained: Span | None


class TooManyHeld(Message):
    """A role obtains a stage while it holds as many stages of that pipeline as there are.

    The acquire waits for the other side to hand over a slot, and the other side waits for this role to release one: both wait
    for ever. Release a stage first, or give the pipeline more stages.
    """

    code = "E0307"
    title = "role `{role}` waits for a stage of `{pipeline}` that only it can release"
    labels = (
        primary("at", "waits here for stage number {wanted}"),
        secondary("held", "still held"),
        secondary("declared", "`{pipeline}` has {count}"),
    )
    note = "this acquire never returns: the other side cannot continue until this role releases a stage"
    help = "release `{first}` before this, or declare `stages={wanted}`"
    role: str
    pipeline: str
    count: str
    wanted: int
    first: str
    at: Span
    held: tuple[Span, ...]
    declared: Span


class NotUsed(Message):
    """A stage is obtained and released, but nothing is read from it or written to it.

    A producer that fills nothing hands garbage to the consumers; a consumer that reads nothing drops a tile. Use the stage's
    tiles between the acquire and the release. A pipeline without a payload only synchronises and needs no use.

    Of several consumers one may give stages back that it does not read, since the others do: so does the warpgroup with the earlier
    queries behind its diagonal in causal attention. It still obtains and releases each of them, for their barriers count its signals
    (E0601). Where consumers take turns and each stage is taken by one of them, see "Consumers in turn" in docs/language.md, what that one
    does not read is dropped.
    """

    code = "E0308"
    title = "stage `{stage}` of `{pipeline}` is obtained, but nothing {verb} it"
    labels = (primary("at", "obtained here"), secondary("released", "released here without a use"))
    note = "{consequence}"
    help = "read it as `{read}` is read, or fill and take fewer stages"
    stage: str
    pipeline: str
    verb: str
    consequence: str
    at: Span
    released: Span | None
    read: str | None  # another stage of the pipeline, in the same role


class ObtainedOnOneBranch(Message):
    """A stage is obtained on one side of a branch and still held where the sides join.

    On the other path there is nothing to use or release. Obtain it before the branch, or release it inside.
    """

    code = "E0314"
    title = "stage `{stage}` of `{pipeline}` is held on only one branch"
    labels = (
        primary("at", "obtained here, and still held where the branches join"),
        secondary("branch", "obtained if this is {yes}, but not if it is {no}"),
        secondary("released", "released outside the branch"),
    )
    note = "on the other path the release frees a slot that this role never obtained, and every later stage is off by one"
    help = "release `{stage}` inside the branch"
    stage: str
    pipeline: str
    yes: str
    no: str
    at: Span
    branch: Span
    released: Span | None


class Shadowed(Message):
    """The name of a stage that is still held is given to another stage.

    Without its name the first stage can never be released. Release it before the name is used again, or give the second stage
    a name of its own.

        s = input.acquire_consumer()
        s = input.acquire_consumer()    # wrong: the first one is lost
    """

    code = "E0315"
    title = "stage `{stage}` of `{pipeline}` is replaced while still held"
    labels = (
        primary("at", "`{stage}` names another stage from here on"),
        secondary("obtained", "the stage obtained here has not been released"),
    )
    note = "{consequence}"
    help = "call `{stage}.release()` before this, or choose another name"
    edits = (add_line_above("at", "{stage}.release()"),)
    stage: str
    pipeline: str
    consequence: str
    at: Span
    obtained: Span | None


class NotMoved(Message):
    """A name that stands for a stage may take over the stage of another name, also in a loop, so that a role can hold a stage into the
    next iteration:

        held = input.acquire_consumer()
        for k in range(n - 1):
            following = input.acquire_consumer()
            mma(acc, held.a, held.b)
            held.release()
            held = following
        mma(acc, held.a, held.b)
        held.release()

    Both must be stages of the same pipeline that the role consumes, without sub-stages, obtained by `acquire_consumer()` in the same
    role or helper.
    """

    code = "E0346"
    title = "`{stage}` cannot take over the stage of `{source}`"
    labels = (primary("at", "{problem}"), secondary("obtained", "`{stage}` is obtained here"))
    note = "which stage is meant would be known at run time only: one would be released twice, and another one never"
    help = "obtain both by `acquire_consumer()`, or use each within its own iteration"
    stage: str
    source: str
    problem: str
    at: Span
    obtained: Span | None


class UsedAfterMove(Message):
    """A name has given its stage to another name, and is used all the same.

    A stage has one name at a time:

        held = following
        following.release()         # wrong: `held` has the stage now
        held.release()              # right
    """

    code = "E0347"
    title = "`{stage}` is used after its stage was given to `{target}`"
    labels = (
        primary("at", "{use} here"),
        secondary("moved", "from here on it is the stage of `{target}`"),
        secondary("obtained", "obtained here"),
    )
    note = "`{stage}` holds no stage: what it stood for may have been released under the other name"
    help = "write `{target}` here"
    stage: str
    target: str
    use: str
    at: Span
    moved: Span
    obtained: Span | None


class NameOfOldStage(Message):
    """When a name takes over another stage, other names for the stage that it had, its tiles, barriers and number, stand for nothing any
    more. In a loop this applies to the next iteration as well.

        tile = held.a
        for k in range(n):
            following = input.acquire_consumer()
            mma(acc, tile, s.b)     # wrong: which stage is this in the second iteration?
            held.release()
            held = following
    """

    code = "E0348"
    title = "`{name}` belongs to a stage that `{stage}` has stopped standing for"
    labels = (primary("at", "used here"), secondary("moved", "`{stage}` takes over another stage here"))
    note = "the slot that it names may be filled anew: its values would be another tile's"
    help = "name it again, from `{stage}`, where it is used"
    name: str
    stage: str
    at: Span
    moved: Span


class ReleasedInsideWith(Message):
    """A stage obtained by `with` is released by hand inside the `with`.

    The scoped forms release at the end of their block, so this stage would be released twice. Remove the release, or obtain
    the stage with `acquire_consumer()` and release it by hand only.

        with input.consume() as s:
            mma(acc, s.a, s.b)
            s.release()             # wrong: the end of the block does this
    """

    code = "E0317"
    title = "stage `{stage}` of `{pipeline}` is released inside its `with`"
    labels = (primary("at", "released by hand here"), secondary("obtained", "this `with` releases `{stage}` at its end"))
    note = "{consequence}"
    help = "remove `{release}`"
    edits = (remove_line("at"),)
    stage: str
    pipeline: str
    release: str
    consequence: str
    at: Span
    obtained: Span


class ReleasedNotHeld(Message):
    """A stage is released on a path on which it was not obtained.

    `release_from_epilogue()` names no stage: it releases the one that was obtained last in the text above it. If that is in
    another branch, this role holds nothing here, and the release signals a slot that is not its own.

        if block.x < full:
            acc = output.acquire_for_epilogue()
            output.release_from_epilogue()
        else:
            output.release_from_epilogue()      # wrong: nothing was obtained on this path
    """

    code = "E0318"
    title = "stage `{stage}` of `{pipeline}` is released where it is not held"
    labels = (primary("at", "nothing was obtained on this path"), secondary("obtained", "obtained on another path"))
    note = "this signals a slot of `{pipeline}` that the role does not hold: the other side believes it free too early"
    help = "move the release to the path that obtains the stage"
    stage: str
    pipeline: str
    at: Span
    obtained: Span | None


class DrainedWhileHeld(Message):
    """A producer drains a pipeline while it still holds one of its stages.

    A drain waits until the consumers have released every stage that was filled. A stage that the role still holds has not been
    handed over, so nobody can release it.

        s = input.acquire_producer()
        tma.load(s.a, a[0, 0])
        input.drain_producer()      # wrong: release s first
        s.release()
    """

    code = "E0319"
    title = "`{pipeline}` is drained while stage `{stage}` is still held"
    labels = (
        primary("at", "waits until every stage has been released"),
        secondary("obtained", "obtained here, and not yet handed over"),
    )
    note = "the drain waits for a stage that this role has not handed over: it never returns"
    help = "release `{stage}` before the drain"
    stage: str
    pipeline: str
    at: Span
    obtained: Span | None
