"""The files of `python.files`: modules of a job outside of its program's folder."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.deployment_options import PythonOptions
from pystate.common.errors import ConfigurationError

ARCHIVE_SUFFIXES = (".zip", ".egg", ".whl")


def python_files(configuration: Configuration) -> list[Path]:
    """Return the files and folders that `python.files` names.

    Raises:
        ConfigurationError: One doesn't exist, is on another machine, or isn't importable.
    """
    paths = paths_of(PythonOptions.PYTHON_FILES.key, configuration.get(PythonOptions.PYTHON_FILES))
    for path in paths:
        if not path.is_dir() and path.suffix not in (".py", *ARCHIVE_SUFFIXES):
            message = f"Python can't import from {path}: it is neither a folder nor a .py, .zip, .egg or .whl file."
            hint = f"other files and whole environments go into {PythonOptions.PYTHON_ARCHIVES.key}"
            raise ConfigurationError(message, where=PythonOptions.PYTHON_FILES.key, hint=hint)
    return paths


def paths_of(key: str, text: str | None) -> list[Path]:
    """Return the paths in the comma-separated value of an option.

    Args:
        key: The option, for errors.
        text: Its value.

    Raises:
        ConfigurationError: One doesn't exist, or is on another machine.
    """
    found = []
    for word in (text or "").split(","):
        if word := word.strip():
            parts = urlsplit(word)
            if parts.scheme not in ("", "file"):
                message = f"{word} is not on this machine."
                raise ConfigurationError(message, where=key, hint="copy it here; Spark takes it to the executors")
            path = Path(unquote(parts.path) if parts.scheme else word).expanduser().absolute()
            if not path.exists():
                message = f"There is no {path}."
                raise ConfigurationError(message, where=key)
            found.append(path)
    return found


def add_python_files(configuration: Configuration) -> None:
    """Let this process import from the job's files, before everything else.

    Raises:
        ConfigurationError: One can't be used.
    """
    folders = [str(path.parent if path.suffix == ".py" and path.is_file() else path) for path in python_files(configuration)]
    sys.path[:0] = [folder for folder in dict.fromkeys(folders) if folder not in sys.path]
