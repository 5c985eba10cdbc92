"""Who was at work when an error came up: role, pipeline and stage, as far as the PTX's metadata and the barriers tell."""

from __future__ import annotations


def blame(program, warp, details: dict) -> dict:
    """Further details of an error of `warp`.

    `filled_by` of the details is the barrier of the memory concerned; without it, the last one the warp used.
    """
    names = program.names
    found = {"who": names.who(warp.index), "warp": warp.index, "role": names.role(warp.index)}
    own, used = names.barrier(details.get("filled_by", -1)), names.barrier(warp.barrier_used)
    name = own or used
    if name is None:
        return found
    place = f"stage {name.place} of pipeline `{name.pipeline}`" if own else f"last used: {name}"
    return found | {"place": place, "pipeline": name.pipeline, "stage": name.stage}
