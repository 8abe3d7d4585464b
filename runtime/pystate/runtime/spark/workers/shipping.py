"""Ships the job's modules and pystate itself to the executors.

Files are distributed by Spark's file server, so that paths of the driver's machine aren't used elsewhere. An archive is
named after its content.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.deployment_options import PythonOptions
from pystate.common.errors import ConfigurationError
from pystate.common.user_code.notebook import running_shell
from pystate.runtime.spark.workers.python_files import python_files

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from pyspark.sql import SparkSession

_MOST_BYTES = 256 << 20
_COMPILED = (".so", ".pyd", ".dylib")
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the same content must make the same archive


def ship(spark: SparkSession, configuration: Configuration) -> None:
    """Add to Spark what its workers must be able to import: pystate, the modules beside the program, `python.files`.

    Args:
        spark: The session, on a cluster.
        configuration: The options in force.

    Raises:
        ConfigurationError: A file can't be shipped.
    """
    from pyspark import SparkFiles  # late: the import of pyspark takes long

    # a Spark folder that lives as long as the application: executors that are added later need the files, too
    folder = Path(SparkFiles.getRootDirectory(), "shipped")
    folder.mkdir(exist_ok=True)
    for file in files_to_ship(configuration, program_folder(), folder):
        spark.sparkContext.addPyFile(str(file))


def files_to_ship(configuration: Configuration, program: Path | None, folder: Path) -> Iterator[Path]:
    """Create archives as needed, and yield all files to be shipped to the executors.

    Args:
        configuration: The options in force.
        program: The folder of the program; None if there is none.
        folder: Where archives are created.

    Raises:
        ConfigurationError: A file can't be shipped.
    """
    for path in python_files(configuration):
        if path.is_dir():
            yield make_archive(folder, path.name, _tree(path, ""))
        elif path.suffix == ".whl":
            yield _unwrapped_wheel(path, folder)
        else:
            yield path
    if program is not None:
        yield make_archive(folder, "program", _importable(program))
    # last: Spark puts each file before the earlier ones on the path, and no file of the job may precede pystate
    yield make_archive(folder, "pystate", _tree(importlib.resources.files("pystate"), "pystate/"))


def program_folder() -> Path | None:
    """Return the folder that the program's modules are imported from; None if no program file is running.

    That of a notebook is the one that its kernel runs in: the file that was started is the kernel's.
    """
    if hasattr(running_shell(), "kernel"):
        return Path.cwd()
    program = Path(sys.argv[0]).absolute()
    if not sys.argv[0] or not program.is_file():
        return None
    folder = program.parent
    while Path(folder, "__init__.py").is_file():  # started with -m, or by its path inside of a package
        folder = folder.parent
    return folder


def make_archive(folder: Path, name: str, members: Iterator[tuple[str, bytes]]) -> Path:
    """Write a zip archive, named after its content; an existing one has the same content.

    Args:
        folder: The target folder.
        name: The prefix of its name.
        members: (name in the archive, bytes) of each file.

    Raises:
        ConfigurationError: It is too large.
    """
    files, size, digest = sorted(members), 0, hashlib.sha256()
    for member, content in files:
        size += len(content)
        digest.update(f"{member}\0{len(content)}\0".encode())
        digest.update(content)
    if size > _MOST_BYTES:
        message = f"The Python files of {name!r} have {size >> 20} MB; at most {_MOST_BYTES >> 20} MB are shipped."
        hint = f"put the program into a folder of its own; data goes into {PythonOptions.PYTHON_ARCHIVES.key}"
        raise ConfigurationError(message, where=PythonOptions.PYTHON_FILES.key, hint=hint)
    path = folder / f"{name}-{digest.hexdigest()[:16]}.zip"
    if not path.exists():
        # Python finds a package without __init__.py in an archive only if the folder has its own entry
        folders = {f"{parent.as_posix()}/": b"" for member, _ in files for parent in PurePosixPath(member).parents[:-1]}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in sorted([*folders.items(), *files]):
                archive.writestr(zipfile.ZipInfo(member, _NO_TIME), content, zipfile.ZIP_DEFLATED)
    return path


def _importable(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the modules and packages of a folder, and the folders without `__init__.py` that have been imported from."""
    for entry in folder.iterdir():
        if entry.suffix == ".py" and entry.is_file():
            yield entry.name, entry.read_bytes()
        elif entry.is_dir():
            loaded = list(getattr(sys.modules.get(entry.name), "__path__", ()))
            if Path(entry, "__init__.py").is_file() or str(entry) in loaded:
                yield from _tree(entry, f"{entry.name}/")


def _tree(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        if entry.is_dir():
            yield from _tree(entry, f"{prefix}{entry.name}/")
        elif not entry.name.endswith(".pyc"):
            yield f"{prefix}{entry.name}", entry.read_bytes()


def _unwrapped_wheel(wheel: Path, folder: Path) -> Path:
    """Return a wheel under a name that Spark accepts for a Python archive.

    Raises:
        ConfigurationError: It has compiled code, which Python doesn't load from an archive.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        compiled = next((name for name in names if name.endswith(_COMPILED)), None)
        if compiled is not None:
            message = f"{wheel.name} has compiled code ({compiled}), which Python doesn't load from an archive."
            hint = f"install it on the executors, or ship an environment with {PythonOptions.PYTHON_ARCHIVES.key}"
            raise ConfigurationError(message, where=PythonOptions.PYTHON_FILES.key, hint=hint)
        return make_archive(folder, wheel.stem, ((name, archive.read(name)) for name in names))
