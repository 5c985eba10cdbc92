"""`pipec sim --launch FILE.json`: how to call a kernel, in a file that a program can write.

    {"kernel": "gemm", "grid": [8, 4], "block": [128], "cluster": [2], "shared": 49152, "cooperative": false,
     "programmatic": true, "registers": 168,
     "arguments": ["a=@a.npy", "i32:64", {"bytes": 160, "at": {"0": "a", "32": "map(a; box=64,64)"}},
                   {"addresses": ["b=f32[64]:zeros", "c=f32[64]:ones"]}],
     "save": {"b": "b.npy"}}

Only `arguments` is required; `registers`, of a thread, matter to `pipec predict` alone. An argument is text as for `--arg`; an object
with `bytes` and `at` is a struct by value; one with `addresses` is a pointer to a table of pointers (u64) to those arrays. File names
are relative to the JSON file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from pipec.api.files import read_array, read_source
from pipec.commands.launching.argument_text import LARGEST_BLOCK, Argument, ArgumentReader, BadText, block
from pipec.commands.launching.call import Call
from pipec.diag.catalogue.commands import run as messages
from pipec.diag.message import Failure
from pipec.sim import ArrayArgument

_MOST = 1 << 31  # CTAs, threads or bytes: above any device limit; the simulator reports the actual ones
_DEEPEST = 8  # nesting of structs


def read_call(file: str, seed: int) -> Call:
    """Raises Failure if the file cannot be read, is not JSON, or does not describe a launch."""
    try:
        stated = json.loads(read_source(file).text)
    except (ValueError, RecursionError) as error:
        raise _failure(file, f"is no JSON: {str(error) if isinstance(error, ValueError) else 'it nests too deeply'}") from None
    try:
        return _call(stated, Path(file).parent, seed)
    except BadText as error:
        raise _failure(file, str(error)) from None


def _call(stated: object, folder: Path, seed: int) -> Call:
    keys = {"kernel", "grid", "block", "cluster", "shared", "cooperative", "programmatic", "registers", "arguments", "save"}
    table = _object(stated, keys, "is a launch")
    reader = ArgumentReader(seed, lambda name: read_array(str(folder / name)))
    tables: list[np.ndarray] = []
    arguments = tuple(_argument(reader, one, tables, 0) for one in _list(table.get("arguments"), "arguments"))
    save = _object(table.get("save", {}), None, "has files by the names of arrays in `save`")
    if not all(isinstance(name, str) for name in save.values()):
        raise BadText("has files by the names of arrays in `save`")
    kernel, cooperative, programmatic = table.get("kernel"), table.get("cooperative", False), table.get("programmatic")
    if not isinstance(kernel, str | None) or not isinstance(cooperative, bool) or not isinstance(programmatic, bool | None):
        raise BadText("has a name as `kernel`, true or false as `cooperative` and `programmatic`")
    return Call(
        kernel,
        _extents(table, "grid"),
        _extents(table, "block"),
        _extents(table, "cluster"),
        _whole(table.get("shared", 0), 0, "shared"),
        cooperative,
        programmatic,
        arguments,
        reader.arrays,
        tuple(tables),
        tuple((name, str(folder / to)) for name, to in save.items()),
        _whole(table["registers"], 1, "registers") if table.get("registers") is not None else None,
        frozenset(name for name, value in table.items() if value is not None),
    )


def _argument(reader: ArgumentReader, stated: object, tables: list[np.ndarray], depth: int) -> Argument:
    if isinstance(stated, str):
        try:
            return reader.argument(stated)
        except BadText as error:
            raise BadText(f"has the argument `{stated[:80]}`, which {error}") from None
    if isinstance(stated, dict) and "addresses" in stated:
        return _table_of_pointers(reader, _object(stated, {"addresses"}, "has a table of pointers"), tables)
    if depth == _DEEPEST:
        raise BadText(f"has structs in structs, deeper than {_DEEPEST}")
    struct = _object(stated, {"bytes", "at"}, 'has arguments, each a text, {"bytes": 64, "at": {...}} or {"addresses": [...]}')
    size = _whole(struct.get("bytes"), 1, "bytes")
    if size > LARGEST_BLOCK:
        raise BadText(f"has a struct of {size} bytes, more than {LARGEST_BLOCK}")
    fields = []
    for offset, value in _object(struct.get("at", {}), None, "has values by offset in `at`").items():
        if not (offset.isascii() and offset.isdecimal()) or len(offset) > len(str(LARGEST_BLOCK)):
            raise BadText(f"has `{offset[:20]}` where the byte offset of a value is expected")
        fields.append((int(offset), _argument(reader, value, tables, depth + 1)))
    return block(size, fields)


def _table_of_pointers(reader: ArgumentReader, stated: Mapping[str, Any], tables: list[np.ndarray]) -> ArrayArgument:
    arrays = []
    for text in _list(stated["addresses"], "addresses"):
        if not isinstance(text, str):
            raise BadText("has arrays in `addresses`, as `--arg` has them")
        arrays.append(reader.array(text))
    if not arrays:
        raise BadText("has an empty list of `addresses`")
    tables += arrays
    return ArrayArgument(np.array([array.ctypes.data for array in arrays], np.uint64))


def _object(value: object, keys: set[str] | None, what: str) -> Mapping[str, Any]:
    """A table with only these keys (None: any)."""
    if not isinstance(value, dict):
        raise BadText(f"{what}, but a JSON object is expected")
    unknown = sorted(value.keys() - keys) if keys is not None else []
    if unknown:
        raise BadText(f"has `{unknown[0][:40]}`; there is {', '.join(sorted(keys or ()))}")
    return value


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadText(f"needs a list as `{name}`")
    return value


def _extents(table: Mapping[str, Any], name: str) -> tuple[int, ...] | None:
    stated = table.get(name)
    if stated is None:
        return None
    sizes = stated if isinstance(stated, list) else [stated]
    if not 1 <= len(sizes) <= 3:
        raise BadText(f"needs one to three numbers as `{name}`")
    return tuple(_whole(size, 1, name) for size in sizes)


def _whole(value: object, least: int, name: str) -> int:
    if not _is_number(value) or not least <= value <= _MOST:
        raise BadText(f"needs whole numbers from {least} to {_MOST} as `{name}`")
    return value


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)  # JSON's true would count as 1


def _failure(file: str, problem: str) -> Failure:
    return Failure(messages.BadArgument(option="--launch", text=file, problem=problem))
