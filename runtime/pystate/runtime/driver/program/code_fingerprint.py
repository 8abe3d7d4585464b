"""The fingerprint of a program's code, which distinguishes its versions."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import pystate

_OTHERS = tuple(
    Path(path)
    for path in {
        str(Path(pystate.__file__).parent),
        *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)


def code_fingerprint() -> str | None:
    """Return the fingerprint of the program that runs in this process; None if it isn't a file.

    The program consists of its file and the modules imported from the same folder, without its arguments.
    """
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    if program is None:
        return None
    return fingerprint(Path(program))


def own_files(program: Path, modules: Iterable[Path] | None = None) -> list[Path]:
    """Return the files that a program consists of, without its own.

    Args:
        program: Its own file, as an absolute path.
        modules: Files of modules; only those below the program's folder count that are neither installed nor pystate's. None
            for those that this process has imported.
    """
    if modules is None:
        found = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        modules = [Path(file) for file in found if isinstance(file, str)]
    return sorted(
        {
            file.absolute()
            for file in modules
            if file.suffix == ".py"
            and file.absolute() != program
            and file.absolute().is_relative_to(program.parent)
            and not any(file.absolute().is_relative_to(other) for other in _OTHERS)
        }
    )


def fingerprint(program: Path, modules: Iterable[Path] | None = None) -> str | None:
    """Return the SHA-256 of a program in hex; None if a file of it can't be read.

    Moving all files to another folder, or renaming the program, doesn't change it.

    Args:
        program: Its own file.
        modules: Files of modules, as `own_files` takes them.
    """
    program = program.absolute()
    own = own_files(program, modules)
    digest = hashlib.sha256()
    try:
        for file in (program, *own):
            name = "" if file == program else file.relative_to(program.parent).as_posix()
            content = file.read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
    except OSError:
        return None
    return digest.hexdigest()
