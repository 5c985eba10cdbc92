"""Makes the wheel `pipec-runtime` from pipec's wheel: what loads, launches and simulates bundles, without the compiler and its packages.

    python tools/runtime_wheel.py dist/pipec-0.1.0-py3-none-any.whl -o dist

Which modules those are is found by following imports from the modules that a caller names, wherever an import stands in them.
"""

import argparse
import ast
import base64
import hashlib
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

# What a caller imports.
ROOTS = ("pipec", "pipec.bundle", "pipec.bundle.loading", "pipec.runtime", "pipec.runtime.gpu.cuda")
# Imported where the compiler is: `pipec.compile`, the C files of a bundle, assembling PTX where there is no cubin.
LEFT_OUT = (
    "pipec.api",
    "pipec.bundle.build",
    "pipec.bundle.c_code",
    "pipec.bundle.c_tables",
    "pipec.ptx",
    "pipec.driver",
    "pipec.grammar",
)
NEEDS = ("numpy>=2.0", "ml_dtypes>=0.5", "platformdirs>=4.3")
CUDA = "cuda-python>=13.0,<14; platform_system != 'Darwin' and extra == 'cuda'"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file: the same wheel from the same wheel


def module_of(name: str) -> str | None:
    return name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") if name.endswith(".py") else None


def imported(text: str, module: str, is_package: bool) -> Iterator[str]:
    """Every dotted name that a module imports or that may be a module, lazy ones in strings among it."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=base, names=names, level=level):
                above = package.split(".")[: len(package.split(".")) + 1 - level] if level else []
                whole = ".".join([*above, *filter(None, [base])])
                yield whole
                yield from (f"{whole}.{alias.name}" for alias in names)
            case ast.Constant(value=str(text)) if text.replace(".", "").isidentifier():
                yield from (text, f"{package}.{text}")


def closure(sources: Mapping[str, str]) -> list[str]:
    """The files that the roots need. `sources`: text of each file of the wheel that is Python."""
    files = {module: name for name in sources if (module := module_of(name)) is not None}
    found: set[str] = set()
    left = list(ROOTS)
    while left:
        module = left.pop()
        if module not in files or module in found or module.startswith(LEFT_OUT):
            continue
        found.add(module)
        parent = module.rpartition(".")[0]
        left += [parent, *imported(sources[files[module]], module, files[module].endswith("__init__.py"))]
    return sorted(files[module] for module in found)


def metadata(text: str) -> str:
    """That of pipec's wheel, with another name and other needs."""
    head, _, _ = text.partition("\n\n")
    lines = [
        line
        for line in head.splitlines()
        if not line.startswith(("Name:", "Requires-Dist:", "Provides-Extra:", "Description", "Summary"))
    ]
    lines += ["Name: pipec-runtime", "Summary: Launches kernels that pipec compiled ahead of time, without the compiler."]
    lines += [*(f"Requires-Dist: {need}" for need in NEEDS), "Provides-Extra: cuda", f"Requires-Dist: {CUDA}"]
    return "\n".join(lines) + "\n"


def digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def runtime_wheel(wheel: Path, folder: Path) -> Path:
    """Writes it, and says where."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    info = next(name.partition("/")[0] for name in files if name.partition("/")[0].endswith(".dist-info"))
    target = info.replace("pipec-", "pipec_runtime-")
    kept = {name: files[name] for name in closure({name: data.decode() for name, data in files.items() if name.endswith(".py")})}
    kept["pipec/py.typed"] = files["pipec/py.typed"]
    kept |= {name.replace(info, target): data for name, data in files.items() if "/licenses/" in name}
    kept[f"{target}/METADATA"] = metadata(files[f"{info}/METADATA"].decode()).encode()
    kept[f"{target}/WHEEL"] = files[f"{info}/WHEEL"]
    rows = [f"{name},{digest(data)},{len(data)}" for name, data in kept.items()]
    kept[f"{target}/RECORD"] = "\n".join([*rows, f"{target}/RECORD,,", ""]).encode()
    made = folder / wheel.name.replace("pipec-", "pipec_runtime-", 1)
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in kept.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return made


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("wheel", type=Path, help="pipec's wheel")
    parser.add_argument("-o", dest="folder", type=Path, default=Path(), help="where to write (default: here)")
    options = parser.parse_args(arguments)
    print(runtime_wheel(options.wheel, options.folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
