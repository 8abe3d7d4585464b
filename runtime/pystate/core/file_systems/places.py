"""Parses locations to a filesystem, a path on it, and a normalized URI."""

from __future__ import annotations

import os
import posixpath
import re
from typing import Any

import fsspec
from fsspec.registry import known_implementations, registry

from pystate.common.configuration.file_system_settings import current_settings
from pystate.common.configuration.sensitive_keys import HIDDEN
from pystate.common.distribution import pip_install
from pystate.common.errors import PystateError, SnapshotError, StorageError
from pystate.common.text.place_text import check_place
from pystate.core.file_systems.file_info import scheme_of
from pystate.core.file_systems.hdfs import default_authority, hdfs_file_system

MEMORY_SCHEME = "jobmanager:"
"""The URI prefix of checkpoints that are kept in the driver's memory."""

_LOCAL_URI = re.compile(r"(file|local):", re.IGNORECASE)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)
_OTHER_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_PASSWORD = re.compile(r"://[^/@]*:[^/]*@")
_S3_SCHEMES = ("s3", "s3a", "s3n", "s3p")
_STORES = (*_S3_SCHEMES, "hdfs", "memory", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "obs", "cos", "sftp")
"""The URI schemes allowed for snapshots, besides local files. Never those of the web: `http`, `ftp` and the like can't store
snapshots, and users who may name a location could make a job manager send requests to any server."""


def parse_location(text: str) -> tuple[Any, str, str]:
    """Return filesystem, path on it, and normalized URI of a location.

    Args:
        text: A path (`/abs`, relative, `~`), `file:/abs`, `file:///abs`, `s3://bucket/path`, `hdfs://host:port/path`,
            `hdfs:///path`, or a URL of another store that fsspec knows. `fs.default-scheme` tells where `/abs` lies.

    Raises:
        SnapshotError: It names no place, one that no snapshot may lie at, or a filesystem that isn't there.
    """
    if not text.strip() or "\0" in text:
        message = f"{text!r} is no path."
        raise SnapshotError(message)
    if _PASSWORD.search(text):
        message = f"{_PASSWORD.sub(f'://{HIDDEN}@', text)!r} has a password in it, which would be shown and stored."
        raise SnapshotError(message, hint="credentials belong into the configuration, the environment or ~/.aws")
    check_place(text, SnapshotError)
    default = current_settings().default_scheme
    if default is not None and text.startswith("/"):
        text = with_default_scheme(default, text)
    local = _LOCAL_URI.match(text)
    url = _URL.fullmatch(text)
    if local is None and url is not None:
        return _parse_url(text, url[1].lower(), url[2], url[3])
    if text.startswith(MEMORY_SCHEME):
        message = (
            f"{text!r} is a checkpoint that was kept in the memory of its job's driver; it can't be read from elsewhere."
        )
        raise SnapshotError(message, hint="take a savepoint, or set execution.checkpointing.dir")
    if local is None and _OTHER_URI.match(text):
        message = f"{text!r} is neither a path nor a URL."
        raise SnapshotError(message, hint="a URL has two slashes after its scheme: scheme://...")
    path = text if local is None else text[local.end() :]
    if local is not None and path.startswith("//"):
        path = path[2:]
        if not path.startswith("/"):
            message = f"{text!r} names a host."
            raise SnapshotError(message, hint="a place on this machine is /path, file:/path or file:///path")
    path = os.path.abspath(os.path.expanduser(path or "."))
    return fsspec.filesystem("file"), path, f"file:{path}"


def with_default_scheme(default: str, path: str) -> str:
    """Return the URL of an absolute path if `fs.default-scheme` is set.

    Raises:
        SnapshotError: The setting isn't a scheme.
    """
    found = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*)(?::/*|://([^/]+)/*)?", default)
    if found is None:
        message = f"fs.default-scheme is {default!r}, which is no scheme."
        raise SnapshotError(message, hint='it is a scheme with what follows it, such as "hdfs://host:port" or "s3://bucket"')
    scheme, authority = found[1], found[2] or ""
    return f"{scheme}:{path}" if _LOCAL_URI.match(f"{scheme}:") else f"{scheme}://{authority}{path}"


def _parse_url(text: str, scheme: str, authority: str, path: str) -> tuple[Any, str, str]:
    if scheme in _S3_SCHEMES:
        if not authority:
            message = f"{text!r} names no bucket."
            raise SnapshotError(message, hint="s3://BUCKET/PATH")
        return _s3(), f"{authority}{path}".rstrip("/"), without_slash(f"s3://{authority}{path}")
    if scheme == "hdfs":
        path = posixpath.normpath(f"/{path.lstrip('/')}")
        authority = authority or default_authority(current_settings().hdfs)
        return hdfs_file_system(authority, current_settings().hdfs), path, f"hdfs://{authority}{path}"
    if not _may_store(scheme):
        message = f"There is no filesystem for {text!r}: snapshots can't be stored at {scheme}://."
        raise SnapshotError(message, hint=f"a path, file:/path, or a URL of {', '.join(_STORES)}")
    try:
        fs, path = fsspec.core.url_to_fs(text)
    except PystateError:
        raise
    except (ValueError, ImportError, OSError) as error:
        message = f"There is no filesystem for {text!r}: {error}"
        hint = "install the fsspec package for this kind of URL" if isinstance(error, ImportError) else None
        raise (StorageError if isinstance(error, OSError) else SnapshotError)(message, hint=hint) from error
    return fs, path, without_slash(text)


def _may_store(scheme: str) -> bool:
    """Whether a scheme is allowed for snapshots: by pystate, or because the program has registered a filesystem for it."""
    return scheme in _STORES or (scheme in registry and scheme not in known_implementations)


def _s3() -> Any:
    try:
        from pystate.core.file_systems.s3 import s3_file_system
    except ImportError as error:
        message = f"s3:// needs a package that isn't installed: {error}."
        raise SnapshotError(message, hint=pip_install("s3")) from error
    return s3_file_system(current_settings().s3)


def without_slash(uri: str) -> str:
    """Return a URI without trailing slashes; the root is unchanged."""
    stripped = uri.rstrip("/")
    return uri if stripped.endswith(":") else stripped


def join(uri: str, name: str) -> str:
    """Return the URI of a name in a directory."""
    return uri + name if uri.endswith("/") else f"{uri}/{name}"


def is_process_memory(fs: Any) -> bool:
    """Whether a filesystem is the memory of one process."""
    return scheme_of(fs) == "memory"
