"""pipec's cache on disk, in the user's own folder: bytes that are read as data, never executed by Python.

An entry is a file that starts with a mark and the hash of its kind, key and content; anything that does not match is ignored and
replaced. The folder and each entry must be owned by the user and writable by nobody else, or there is no cache at all: whoever can write
there determines what runs on this user's GPU. `PIPEC_CACHE_DIR`, an absolute path, moves the folder; "" turns it off.
"""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pipec.record import record

# Like the standard library's `random`, without hashlib where possible: it loads OpenSSL, in a fiftieth of a command line's run time.
if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256
    except ImportError:  # Python 3.11
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256

_MARK = b"pipec cache 1\n"
_HASH_BYTES = 32
_LARGEST = 1 << 28  # bytes of an entry; far larger than any cubin
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_EXACT = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | _EXACT | getattr(os, "O_NONBLOCK", 0)  # must not block on a pipe with the entry's name
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _EXACT
_FOLDERS_OPEN = hasattr(os, "O_DIRECTORY") and os.open in os.supports_dir_fd


def key_of(*made_of: str | bytes) -> str:
    """The key of what depends on exactly these texts, in this order."""
    whole = sha256()
    for part in made_of:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "little") + data)
    return whole.hexdigest()


def folder() -> Path | None:
    """The cache folder: $PIPEC_CACHE_DIR, else pipec's folder among the user's caches.

    None if it is turned off, or if the path is not absolute, as without a home: a relative folder may belong to anyone.
    """
    chosen = os.environ.get("PIPEC_CACHE_DIR")
    if chosen is None:
        chosen = _on_linux() or _anywhere()
    return Path(chosen) if os.path.isabs(chosen) else None


def _on_linux() -> str:
    """Like platformdirs, whose import takes 3 ms, if the environment has everything that it uses."""
    caches, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if sys.platform != "linux" or not os.path.isabs(caches or home):
        return ""
    return str(Path(caches or home.rstrip("/") + "/.cache") / "pipec")


def _anywhere() -> str:
    from platformdirs import user_cache_dir

    with suppress(RuntimeError):  # there is no home
        return user_cache_dir("pipec", appauthor=False)
    return ""


def read(kind: str, key: str) -> bytes | None:
    """The content cached under `key` (see `key_of`), or None. `kind` is the ending of the file's name."""
    with suppress(OSError), _opened(create=False) as place:
        if place is None:
            return None
        descriptor = place.open(f"{key}.{kind}", _READ)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_size > _LARGEST or not _ours(about):
                return None
            entry = file.read()
        begin = len(_MARK) + _HASH_BYTES
        content = entry[begin:]
        return content if entry[:begin] == _header(kind, key, content) else None
    return None


def write(kind: str, key: str, content: bytes) -> None:
    """Caches `content` atomically; the last of several writers wins. Failing to write is not an error."""
    with suppress(OSError), _opened(create=True) as place:
        if place is None or len(content) > _LARGEST:
            return
        partial = f"{key}.{os.getpid()}.{os.urandom(8).hex()}.partial"
        try:
            with os.fdopen(place.open(partial, _CREATE), "wb") as file:
                file.write(_header(kind, key, content))
                file.write(content)
            place.rename(partial, f"{key}.{kind}")
        except BaseException:
            with suppress(OSError):
                place.remove(partial)
            raise


def _header(kind: str, key: str, content: bytes) -> bytes:
    return _MARK + sha256(b"\0".join((kind.encode(), key.encode(), content))).digest()


@record
class _Place:
    """The folder, held open if the system can, so that the checked folder is the one used."""

    path: Path
    descriptor: int | None

    def _named(self, name: str) -> str:
        return name if self.descriptor is not None else str(self.path / name)

    def open(self, name: str, flags: int) -> int:
        return os.open(self._named(name), flags, 0o600, dir_fd=self.descriptor)

    def rename(self, old: str, new: str) -> None:
        os.replace(self._named(old), self._named(new), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def remove(self, name: str) -> None:
        os.unlink(self._named(name), dir_fd=self.descriptor)


@contextmanager
def _opened(*, create: bool) -> Iterator[_Place | None]:
    """The folder if it can be trusted, else None. Raises OSError if there is none."""
    path = folder()
    if path is None:
        yield None
        return
    if create:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _FOLDERS_OPEN:  # Windows, where only the user can write to the user's folders
        yield _Place(path, None)
        return
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _EXACT)
    try:
        yield _Place(path, descriptor) if _ours(os.fstat(descriptor)) else None
    finally:
        os.close(descriptor)


def _ours(about: os.stat_result) -> bool:
    """Owned by the user, and writable by no one else. Windows reports neither."""
    if not hasattr(os, "geteuid"):
        return True
    return about.st_uid == os.geteuid() and not about.st_mode & _OTHERS_MAY_WRITE
