"""Passes secret settings to the JVM without the command line, which every user of the machine can read.

PySpark starts the JVM by `spark-submit --conf key=value`, for each setting of a session. Settings with sensitive keys are
passed in a properties file that only its owner can read; it exists from the start of the JVM to its first answer.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from pystate.common.configuration.sensitive_keys import is_sensitive
from pystate.common.errors import ConfigurationError
from pystate.common.files.home import SPARK_SECRETS

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_SHELL = "pyspark-shell"
_FILE_ARGUMENT = "--properties-file"
_WITH_DEFAULTS = "--load-spark-defaults"
_ESCAPES = str.maketrans(
    {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "=": "\\=", ":": "\\:"}
    | {"#": "\\#", "!": "\\!", " ": "\\ "}
)


def secret_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that must not appear on a command line."""
    return {key: value for key, value in settings.items() if is_sensitive(key)}


@contextlib.contextmanager
def secrets_by_file(secrets: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Let a JVM started within this context read secret settings from a file, which is deleted afterwards.

    Args:
        secrets: The settings; the session's builder must not get them.
        folder: The folder of the file; a file left there by a killed process is deleted in any case.

    Raises:
        ConfigurationError: Spark would truncate a value, or the user's own properties file can't be read.
    """
    path = folder / SPARK_SECRETS
    path.unlink(missing_ok=True)
    if not secrets:
        yield
        return
    before = os.environ.get(_ARGUMENTS)
    arguments, text = _with_file(shlex.split(before or _SHELL), path)
    text += "".join(f"{_escaped(key)}={_escaped(_whole(key, value))}\n" for key, value in sorted(secrets.items()))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.environ[_ARGUMENTS] = shlex.join(arguments)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.environ.pop(_ARGUMENTS, None)
        if before is not None:
            os.environ[_ARGUMENTS] = before


def _with_file(arguments: list[str], path: Path) -> tuple[list[str], str]:
    """Return the arguments of spark-submit with our file, and the content of the user's own file, which it replaces."""
    kept, text, given = [], "", False
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name == _FILE_ARGUMENT:
            given, text = True, _content(Path(value if equals else next(words, "")))
        else:
            kept.append(word)
    ours = [_FILE_ARGUMENT, str(path)]
    if not given and _WITH_DEFAULTS not in kept:
        ours.append(_WITH_DEFAULTS)  # a file given so replaces spark-defaults.conf otherwise
    return ours + kept, text


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") + "\n"
    except OSError as error:
        message = f"The properties for Spark can't be read: {error.strerror}."
        raise ConfigurationError(message, where=f"{_ARGUMENTS}: {path}", hint="mend the path, or leave it out") from error


def _whole(key: str, value: str) -> str:
    """Return a value, provided that Spark takes it unchanged.

    Raises:
        ConfigurationError: It would be truncated.
    """
    if value != value.strip():
        message = f"The value of {key} begins or ends with a blank, which Spark cuts off."
        raise ConfigurationError(message, where=key, hint="leave the blank out")
    return value


def _escaped(text: str) -> str:
    """Return text escaped for `java.util.Properties`."""
    return text.translate(_ESCAPES)
