"""Finds files that Python would import in the place of its own modules, or of Spark's: `json.py` beside a program."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from importlib.machinery import FrozenImporter
from pathlib import Path

from pystate.common.errors import JobGraphError

STANDARD = frozenset(
    """
    abc annotationlib argparse array ast asyncio atexit base64 binascii bisect bz2 cProfile calendar cmath codecs collections
    concurrent configparser contextlib contextvars copy copyreg csv ctypes dataclasses datetime decimal difflib dis
    email encodings enum errno faulthandler fcntl filecmp fnmatch functools gc genericpath gettext glob grp gzip hashlib
    heapq hmac html http importlib inspect io ipaddress itertools json keyword linecache locale logging lzma marshal
    math mmap multiprocessing ntpath numbers opcode operator os pathlib pickle pkgutil platform posix posixpath pprint
    profile pstats pwd pydoc pyexpat queue quopri random re reprlib resource runpy secrets select selectors shlex shutil
    signal site socket socketserver ssl stat string struct subprocess sysconfig tarfile tempfile textwrap threading time
    token tokenize traceback types typing unicodedata urllib uuid warnings weakref xml zipfile zipimport zlib zoneinfo
    """.split()
)
"""What drivers, slots and Spark's workers import of Python's own modules."""

_DEPENDENCIES = frozenset(("google", "msgpack", "numpy", "pandas", "psutil", "py4j", "pyarrow", "pyspark", "pystate"))


def hiding_file(folders: Iterable[Path]) -> Path | None:
    """Return a module or package in folders with the name of one that pystate or Spark imports; None without one."""
    for folder in dict.fromkeys(folders):
        with contextlib.suppress(OSError):
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                stem, ending = os.path.splitext(entry.name)
                is_module = ending == ".py" or (not ending and Path(entry.path, "__init__.py").is_file())
                if is_module and (stem in _DEPENDENCIES or (stem in STANDARD and not _is_built_in(stem))):
                    return Path(entry.path)
    return None


def check_files_beside(program: Path) -> None:
    """Refuse a program beside which, or in whose working directory, a file hides a module.

    Raises:
        JobGraphError: There is one.
    """
    found = hiding_file((program.parent, Path.cwd()))
    if found is not None:
        message = f"Python imports {found.name} in the place of the module {found.stem!r} that pystate and Spark need."
        raise JobGraphError(message, where=str(found), hint="give it another name")


def _is_built_in(name: str) -> bool:
    """Whether no file can hide a module: the interpreter itself has it."""
    return name in sys.builtin_module_names or FrozenImporter.find_spec(name) is not None
