"""What is kept on disk: whose it must be, what is not believed, and that nothing of it is ever run."""

import os
import pickle
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

from pipec import cache
from pipec.runtime.gpu import cubins
from pipec.runtime.launcher import Image
from pipec.syntax import grammar

ROOT = Path(__file__).parents[2]
KEY = cache.key_of("made of this")
CONTENT = b"content \0 of an entry"
PTX = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n  ret;\n}\n"
posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has neither owners nor modes")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PIPEC_CACHE_DIR", str(tmp_path / "kept"))
    grammar.parser.cache_clear()
    yield tmp_path / "kept"
    grammar.parser.cache_clear()


def entry(place: Path) -> Path:
    (only,) = place.iterdir()
    return only


def test_what_is_written_is_read(place: Path) -> None:
    assert cache.read("cubin", KEY) is None and not place.exists()
    cache.write("cubin", KEY, CONTENT)
    assert cache.read("cubin", KEY) == CONTENT and entry(place).name == f"{KEY}.cubin"
    assert cache.read("tables", KEY) is None and cache.read("cubin", cache.key_of("something else")) is None
    cache.write("cubin", KEY, b"")
    assert cache.read("cubin", KEY) == b""


def test_a_key_distinguishes_its_parts() -> None:
    keys = {cache.key_of(*parts) for parts in ((), ("",), ("ab",), ("a", "b"), ("b", "a"), ("a", "b", ""), ("a\0b",))}
    assert len(keys) == 7 and cache.key_of("a", b"b") == cache.key_of(b"a", "b")


def test_every_damaged_entry_is_none(place: Path) -> None:
    cache.write("cubin", KEY, CONTENT)
    file = entry(place)
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert cache.read("cubin", KEY) is None, length
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert cache.read("cubin", KEY) is None, at
    file.write_bytes(whole + b"\0")
    assert cache.read("cubin", KEY) is None
    cache.write("cubin", KEY, CONTENT)
    assert cache.read("cubin", KEY) == CONTENT


def test_an_entry_under_another_name_is_none(place: Path) -> None:
    cache.write("cubin", KEY, CONTENT)
    other = cache.key_of("other")
    entry(place).rename(place / f"{other}.cubin")
    assert cache.read("cubin", other) is None


# --- whose it is --------------------------------


@posix
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o722])
def test_a_folder_that_others_can_write_is_not_used(place: Path, mode: int) -> None:
    cache.write("cubin", KEY, CONTENT)
    place.chmod(mode)
    assert cache.read("cubin", KEY) is None
    cache.write("cubin", cache.key_of("new"), CONTENT)
    assert len(list(place.iterdir())) == 1
    place.chmod(0o755)
    assert cache.read("cubin", KEY) == CONTENT


@posix
@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_an_entry_that_others_can_write_is_not_used(place: Path, mode: int) -> None:
    cache.write("cubin", KEY, CONTENT)
    entry(place).chmod(mode)
    assert cache.read("cubin", KEY) is None


@posix
def test_a_folder_of_another_user_is_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write("cubin", KEY, CONTENT)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert cache.read("cubin", KEY) is None
    cache.write("cubin", cache.key_of("new"), CONTENT)
    assert len(list(place.iterdir())) == 1


@posix
def test_an_entry_of_another_user_is_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write("cubin", KEY, CONTENT)
    real = os.fstat

    def foreign(descriptor: int) -> os.stat_result:
        about = real(descriptor)
        return about if stat.S_ISDIR(about.st_mode) else os.stat_result((*about[:4], about.st_uid + 1, *about[5:10]))

    monkeypatch.setattr(os, "fstat", foreign)
    assert cache.read("cubin", KEY) is None


@posix
def test_links_and_pipes_are_not_followed(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write("cubin", KEY, CONTENT)
    file = entry(place)
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert cache.read("cubin", KEY) is None
    file.unlink()
    os.mkfifo(file)
    assert cache.read("cubin", KEY) is None
    file.unlink()
    elsewhere.rename(file)
    assert cache.read("cubin", KEY) == CONTENT
    (tmp_path / "link").symlink_to(place)
    monkeypatch.setenv("PIPEC_CACHE_DIR", str(tmp_path / "link"))
    assert cache.read("cubin", KEY) is None


@posix
def test_what_is_made_is_the_users_alone(place: Path) -> None:
    before = os.umask(0)
    try:
        cache.write("cubin", KEY, CONTENT)
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700 and stat.S_IMODE(entry(place).stat().st_mode) == 0o600
    assert cache.read("cubin", KEY) == CONTENT


# --- where it is --------------------------------


def test_without_an_absolute_place_there_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for chosen in ("", "kept", "./kept", "~/kept"):
        monkeypatch.setenv("PIPEC_CACHE_DIR", chosen)
        assert cache.folder() is None
        cache.write("cubin", KEY, CONTENT)
        assert cache.read("cubin", KEY) is None
    monkeypatch.delenv("PIPEC_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a user that the system does not know
    assert cache.folder() is None
    assert not list(tmp_path.iterdir())


@posix
def test_the_default_is_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIPEC_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.folder() is not None and tmp_path in cache.folder().parents  # type: ignore[union-attr]


@pytest.mark.parametrize("caches", [None, "", "/", "/caches", "/caches/", "caches", " "])
@pytest.mark.parametrize("home", [None, "", "/", "/home/user", "/home/user/", "home"])
def test_the_default_is_that_of_platformdirs(caches: str | None, home: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is not asked where the answer is clear."""
    monkeypatch.delenv("PIPEC_CACHE_DIR", raising=False)
    for name, value in (("XDG_CACHE_HOME", caches), ("HOME", home)):
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    expected = Path(platformdirs.user_cache_dir("pipec", appauthor=False))
    assert cache.folder() == (expected if expected.is_absolute() else None)


def test_a_folder_that_cannot_be_made_is_no_error(place: Path) -> None:
    place.touch()
    cache.write("cubin", KEY, CONTENT)
    assert cache.read("cubin", KEY) is None and place.read_bytes() == b""


# --- nothing in it is run --------------------------------


class Bomb:
    """Pickled, it leaves a mark where it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return exec, (f"open({str(self.mark)!r}, 'w').close()",)


def bombs(folder: Path, mark: Path) -> None:
    """Under every name that any version looked for."""
    for name in list(folder.rglob("*")):
        if name.is_file():
            name.write_bytes(pickle.dumps(Bomb(mark)))


def earlier_name() -> str:
    """What versions with pickled tables called them."""
    from hashlib import sha256

    import lark

    grammar = (ROOT / "grammar" / "pipec.lark").read_bytes()
    made_of = b"|".join((grammar, lark.__version__.encode(), sys.version.encode()))
    return f"grammar-{sha256(made_of).hexdigest()[:16]}.tables"


@posix
@pytest.mark.parametrize("home", [None, "", "~", ".", "home"])
def test_compiling_in_a_hostile_checkout_runs_nothing_of_it(home: str | None, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    checkout = tmp_path / "checkout"
    for folder in ("~/.cache/pipec", ".cache/pipec", "home/.cache/pipec", "pipec"):
        (checkout / folder).mkdir(parents=True)
        (checkout / folder / earlier_name()).write_bytes(pickle.dumps(Bomb(mark)))
    before = sorted(checkout.rglob("*"))
    (checkout / "k.pipe").write_text("kernel k():\n    grid(1)\n")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)} | ({} if home is None else {"HOME": home})
    # A user whom the system does not know: no home but that of HOME.
    code = "import pwd; pwd.getpwuid = lambda _: (_ for _ in ()).throw(KeyError()); from pipec.__main__ import entry; entry()"
    command = [sys.executable, "-P", "-c", code, "compile", "k.pipe", "--emit", "ast"]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not mark.exists() and sorted(checkout.rglob("*")) == sorted([*before, checkout / "k.pipe"])


def test_hostile_tables_are_neither_run_nor_believed(place: Path, tmp_path: Path) -> None:
    tree = grammar.parser().parse("kernel k():\n    grid(1)\n")
    bombs(place, tmp_path / "mark")
    grammar.parser.cache_clear()
    assert grammar.parser().parse("kernel k():\n    grid(1)\n") == tree
    assert not (tmp_path / "mark").exists()


@pytest.mark.sample(0.5)
@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b'{"data":{},"memo":{"0":{}}}', b"\xff\xfe", b"[" * 100_000, b"9" * 5000]
)
def test_tables_of_another_form_are_made_anew(content: bytes, place: Path) -> None:
    grammar.parser()
    key = entry(place).stem
    cache.write("tables", key, content)
    grammar.parser.cache_clear()
    assert grammar.parser().parse("kernel k():\n    grid(1)\n")
    assert (cache.read("tables", key) or b"").startswith(b'{"data"')


@pytest.mark.parametrize("content", [b"", b"MZ not machine code", b"\x7fEL"])
def test_only_machine_code_goes_to_the_driver(content: bytes, place: Path) -> None:
    first = cubins.machine_code(Image.of(PTX), "k")
    file = entry(place)
    whole = file.read_bytes()
    cache.write("cubin", file.stem, content)
    assert cubins.machine_code(Image.of(PTX), "k") == first and file.read_bytes() == whole
    file.write_bytes(first)  # right machine code, but nobody vouches for it
    assert cubins.machine_code(Image.of(PTX), "k") == first and file.read_bytes() == whole


def test_no_module_of_pipec_unpickles() -> None:
    """Nor reads code from data in another way."""
    for file in [*ROOT.glob("pipec/**/*.py"), *ROOT.glob("runtime/**/*.py")]:
        text = file.read_text(encoding="utf-8")
        found = [word for word in ("import pickle", "import marshal", "import shelve", "Lark.open(", ".save(") if word in text]
        assert not found, (file, found)


# --- several at once --------------------------------


def test_processes_at_once(place: Path) -> None:
    """Writers and readers of one entry: each reader sees the whole of one of them."""
    program = textwrap.dedent("""
        import sys
        from pipec import cache
        key, mine = sys.argv[1], sys.argv[2].encode() * 50_000
        seen = set()
        for _ in range(100):
            cache.write("cubin", key, mine)
            found = cache.read("cubin", key)
            assert found is not None and len(found) == 50_000 and len(set(found)) == 1, found
            seen.add(found[:1])
    """)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    running = [subprocess.Popen([sys.executable, "-c", program, KEY, letter], env=environment) for letter in "abc"]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert entry(place).name == f"{KEY}.cubin"


def test_a_writer_that_fails_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache.write("cubin", KEY, CONTENT)
    assert list(place.iterdir()) == []
