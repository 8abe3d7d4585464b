"""Imports PySpark from an installed folder in place of Spark's archive, whose sources Python compiles in each process."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

_PACKAGES = ("py4j", "pyspark")  # the second imports the first


def import_compiled(path: Sequence[str], spark_home: str | None) -> list[str]:
    """Import PySpark and what it comes with from folders that hold the same sources as Spark's archives.

    Spark puts its archives first on the path of each worker. A package stays where it would have been found if no folder has
    the same. Later imports of its modules come from its folder, too; the path itself stays as it is.

    Args:
        path: Where Python looks for modules, in order.
        spark_home: Spark's folder; None if it isn't known.

    Returns:
        Which packages come from folders.
    """
    imported, own = [], [] if spark_home is None else [os.path.join(spark_home, "python")]
    for name in _PACKAGES:
        archive = next((entry for entry in path if _found(name, entry) is not None), None)
        if archive is None or os.path.isdir(archive):
            continue
        folders = [entry for entry in (*path, *own) if os.path.isdir(entry)]
        found = ((_found(name, entry), Path(entry)) for entry in folders)
        spec, folder = next(((spec, entry) for spec, entry in found if spec is not None), (None, Path()))
        if spec is not None and spec.loader is not None and _is_copy(name, folder, archive):
            # by itself: its folder has other packages, too, which must not go before those that they would hide
            sys.modules[name] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            imported.append(name)
    return imported


def _found(name: str, entry: str) -> importlib.machinery.ModuleSpec | None:
    return importlib.machinery.PathFinder.find_spec(name, [entry])


def _is_copy(name: str, folder: Path, archive: str) -> bool:
    """Whether a folder has the version of an archive, and what both have in the same size; packages come without tests."""
    with zipfile.ZipFile(archive) as opened:
        try:
            version = f"{name}/version.py"
            same = opened.read(version) == Path(folder, version).read_bytes()
        except (OSError, KeyError):
            return False
        sizes = {member.filename: member.file_size for member in opened.infolist() if member.filename.startswith(f"{name}/")}
    for member, size in sizes.items() if same else ():
        try:
            found = os.stat(folder / member)
        except FileNotFoundError:
            continue
        if member.endswith(".py") and found.st_size != size:
            return False
    return same
