"""What pipec keeps on disk between processes, in the user's own folder: bytes that are read as data, never run by Python.

An entry is a file that begins with a mark and the hash of its kind, key and content; whatever does not match is no entry, and is made
anew. The folder and each entry must be the user's own and writable by nobody else, else there is no cache at all: who can write there
decides what this user's GPU runs. `PIPEC_CACHE_DIR`, an absolute path, moves the folder; "" turns it off.
"""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from pipec.record import record

_MARK = b"pipec cache 1\n"
_HASH_BYTES = 32
_LARGEST = 1 << 28  # bytes of an entry; far above any cubin
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_EXACT = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | _EXACT | getattr(os, "O_NONBLOCK", 0)  # a pipe of the entry's name must not keep us waiting
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _EXACT
_FOLDERS_OPEN = hasattr(os, "O_DIRECTORY") and os.open in os.supports_dir_fd


def key_of(*made_of: str | bytes) -> str:
    """The name of what depends on exactly these texts, in this order."""
    whole = sha256()
    for part in made_of:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "little") + data)
    return whole.hexdigest()


def folder() -> Path | None:
    """Where entries are kept: $PIPEC_CACHE_DIR, else pipec's folder among the user's caches.

    None when turned off, and when the place is not absolute, as without a home: a folder of the current one is whoever's wrote it.
    """
    chosen = os.environ.get("PIPEC_CACHE_DIR")
    if chosen is None:
        chosen = _on_linux() or _anywhere()
    return Path(chosen) if os.path.isabs(chosen) else None


def _on_linux() -> str:
    """As platformdirs has it, whose import takes 3 ms, where the environment says all that it asks."""
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
    """The content kept under `key` (see `key_of`), or None. `kind` is the ending of the file's name."""
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
    """Keeps `content`; the entry appears whole or not at all, and the last of several writers wins. Failing to write is no error."""
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
    """The folder, held open where the system can, so that what was checked is what is used."""

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
    """The folder if it can be trusted, else None. Raises OSError where there is none."""
    path = folder()
    if path is None:
        yield None
        return
    if create:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _FOLDERS_OPEN:  # Windows, where the user's folders are nobody else's to write
        yield _Place(path, None)
        return
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _EXACT)
    try:
        yield _Place(path, descriptor) if _ours(os.fstat(descriptor)) else None
    finally:
        os.close(descriptor)


def _ours(about: os.stat_result) -> bool:
    """Owned by the user, and writable by no one else. Windows tells neither."""
    if not hasattr(os, "geteuid"):
        return True
    return about.st_uid == os.geteuid() and not about.st_mode & _OTHERS_MAY_WRITE
