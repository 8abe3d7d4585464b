"""Keeps the log lines of libraries out of stdout, which belongs to the job's output.

A program that sets `logging` to INFO and its stream to stdout asks for its own lines there. py4j's (several for each epoch),
Spark's, and those of other installed packages would be mixed with the job's rows.
"""

from __future__ import annotations

import logging
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pystate


def keep_libraries_off_stdout() -> None:
    """Redirect to stderr what libraries log to stdout, for all existing handlers; may be called again.

    py4j, whose lines tell of each call between Spark and Python, stays silent below WARNING unless the program sets a level
    of its own for it.
    """
    py4j = logging.getLogger("py4j")
    if py4j.level == logging.NOTSET:
        py4j.setLevel(logging.WARNING)
    for handler in _handlers():
        if isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stdout, sys.__stdout__):
            if not any(isinstance(present, _LibrariesToStderr) for present in handler.filters):
                handler.addFilter(_LibrariesToStderr(handler))


class _LibrariesToStderr(logging.Filter):
    """Filters the lines of libraries from a handler and writes them to stderr, in the handler's format."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._handler = handler

    def filter(self, record: logging.LogRecord) -> bool:
        if not _is_of_a_library(record.pathname):
            return True
        sys.stderr.write(f"{self._handler.format(record)}\n")
        return False


def _handlers() -> Iterator[logging.Handler]:
    yield from logging.root.handlers
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):  # else a placeholder for its children
            yield from logger.handlers


def _is_of_a_library(path: str) -> bool:
    return path.startswith(_library_folders())


@cache
def _library_folders() -> tuple[str, ...]:
    """Return the folders of installed packages and of the standard library, each with a trailing slash."""
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages()}
    packages = [pystate, sys.modules.get("pyspark"), sys.modules.get("py4j")]  # Spark may be in a SPARK_HOME
    folders |= {str(Path(package.__file__).parent) for package in packages if package and package.__file__}
    return tuple(f"{folder}/" for folder in folders)
