"""S3, and services that speak its protocol, through s3fs."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import BotoCoreError, NoCredentialsError, PartialCredentialsError
from s3fs import S3FileSystem

from pystate.common.configuration.file_system_settings import S3Settings

_lock = threading.Lock()
_made: dict[tuple[int, S3Settings], Any] = {}


class SnapshotS3FileSystem(S3FileSystem):  # type: ignore[misc]
    """s3fs with the configured number of retries: botocore retries requests, s3fs only retries a broken read once.

    A service that can't be reached raises OSError, as everywhere else; botocore's own errors are none.
    """

    retries = 2

    async def _call_s3(self, method: str, *arguments: Any, **options: Any) -> Any:
        with _errors_of_the_system():
            return await super()._call_s3(method, *arguments, **options)

    async def _cat_file(self, path: str, *arguments: Any, **options: Any) -> bytes:
        with _errors_of_the_system():
            data: bytes = await super()._cat_file(path, *arguments, **options)
            return data


@contextlib.contextmanager
def _errors_of_the_system() -> Iterator[None]:
    try:
        yield
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise PermissionError(errno.EACCES, str(error)) from error
    except BotoCoreError as error:
        raise OSError(errno.EIO, str(error)) from error


def s3_file_system(settings: S3Settings) -> Any:
    """Return the filesystem; one for all threads of the process, since a client takes long to make."""
    key = (os.getpid(), settings)  # a forked process makes its own connections
    with _lock:
        if key not in _made:
            _made[key] = _make(settings)
        return _made[key]


def _make(settings: S3Settings) -> Any:
    config: dict[str, Any] = {
        "connect_timeout": settings.connection_timeout_s,
        "read_timeout": settings.socket_timeout_s,
        "retries": {"total_max_attempts": settings.max_retries + 1, "mode": "standard"},
    }
    if settings.path_style_access:
        config["s3"] = {"addressing_style": "path"}
    if settings.endpoint is not None:
        # not all services know the checksums that Amazon's clients add; each file of a snapshot has its own
        config["request_checksum_calculation"] = "when_required"
        config["response_checksum_validation"] = "when_required"
    return SnapshotS3FileSystem(
        key=settings.access_key,
        secret=settings.secret_key,
        token=settings.session_token,
        endpoint_url=settings.endpoint,
        client_kwargs={} if settings.region is None else {"region_name": settings.region},
        config_kwargs=config,
        default_block_size=settings.part_size,
        use_listings_cache=False,
        skip_instance_cache=True,
    )
