"""What a program that runs its job itself tells a job manager of another home, and what it is answered."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pystate.common.errors import JobExecutionError, PystateError, UsageError
from pystate.common.files.home import parse_job_id
from pystate.common.text.plain_data import Bounds, OpenPlainData, PlainDataError, unless_none
from pystate.runtime.job_folder.content import FileContent
from pystate.runtime.job_folder.small_files import DriverAddressFile, EmbeddedProgramFile

MOST_FILE_BYTES = 64 << 20
"""The largest size of a file of a job's folder that is sent, before it is compressed."""
MOST_INTERVAL_MS = 3_600_000
"""Between two signs of life."""
_MOST_TEXT = 4096


class RegistrationRefusedError(JobExecutionError):
    """A job manager doesn't take a job that a program runs itself."""


class SecretRefusedError(PystateError):
    """The other side doesn't prove the secret."""


@dataclass(frozen=True)
class Registration(OpenPlainData):
    """What a program tells, again and again while its job runs.

    Attributes:
        challenge: What the job manager has asked it to prove its secret over.
        nonce: What the job manager is to prove its secret over.
        job_id: The job.
        incarnation: Random digits of this start of the program.
        protocol: The version of what it says, `REGISTRATION_PROTOCOL`.
        pystate_version: That of its pystate.
        control_nonce: What the secret of its control endpoint is computed from.
        encrypted: Whether connections to that are encrypted.
        driver: Where that listens.
        program: The program.
        home: Its home, as people find it.
        log: Its log, likewise.
        whole: Whether all files are sent, not those alone that have changed.
        ended: Whether it is the last word: the job has ended.
        interval_ms: How often it shows that it lives.
        files: Files of the job's folder, by name: `file_to_text` of each.
    """

    challenge: str
    nonce: str
    job_id: str
    incarnation: str
    protocol: int
    pystate_version: str
    control_nonce: str
    encrypted: bool
    driver: DriverAddressFile
    program: EmbeddedProgramFile
    home: str
    log: str
    whole: bool
    ended: bool
    interval_ms: Annotated[int, Bounds(1, MOST_INTERVAL_MS)] = 10_000
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_plain(cls, plain: Any) -> Registration:
        """Rebuild it.

        Raises:
            PlainDataError: It isn't one.
        """
        said = super().from_plain(plain)
        one_line = {
            "job_id": said.job_id,
            "incarnation": said.incarnation,
            "control_nonce": said.control_nonce,
            "pystate_version": said.pystate_version,
            "home": said.home,
            "log": said.log,
            "host": said.program.host,
            "program": said.program.program,
            "log_job": said.program.log_job,
            "machine": said.program.machine,
            "started": said.program.started or "",
            "driver": said.driver.host,
        }
        for name, text in one_line.items():
            if len(text) > _MOST_TEXT or not text.isprintable():
                message = f"of a Registration {name!r} is no text of one line with at most {_MOST_TEXT} characters"
                raise PlainDataError(message)
        for text in (said.job_id, said.program.log_job):
            try:
                parse_job_id(text)
            except UsageError as error:
                raise PlainDataError(error.message) from error
        return said


@dataclass(frozen=True)
class RegistrationAnswer(OpenPlainData):
    """What it is answered.

    Attributes:
        nonce: That of the registration.
        wanted: Whether the job manager knows nothing of this program, and wants all files.
        replaced: Whether another start of the program has the job: this one had been taken for lost, and is to end.
        same_home: Whether it serves the home of the program, where the files are: nothing needs to be sent.
        reachable: Whether it can connect to the program's control endpoint; None where it hasn't tried.
        reason: Why it can't; empty if it can.
    """

    nonce: str
    wanted: bool = False
    replaced: bool = False
    same_home: bool = False
    reachable: bool | None = None
    reason: str = ""


@dataclass(frozen=True)
class RegistrationFile(FileContent):
    """`registration.json`, written by the job manager: the program that has registered the job.

    Attributes:
        incarnation: Random digits of that start of the program.
        home: Its home, as people find it.
        log: Its log, likewise.
        reachable: Whether the job manager could connect to it.
        reason: Why not; empty if it could.
        replaced: Earlier starts that had been taken for lost.
        interval_ms: How often it shows that it lives; None if unknown.
    """

    missing_is_default: ClassVar[bool] = True
    title: ClassVar[str] = "The program that has registered the job"
    version: ClassVar[int | None] = 1

    incarnation: str
    home: str
    log: str
    reachable: bool
    reason: str
    replaced: tuple[str, ...] = ()
    interval_ms: int | None = unless_none()


def file_to_text(data: bytes) -> str:
    """Return the content of a file as compressed text."""
    return base64.b64encode(zlib.compress(data)).decode("ascii")


def file_from_text(text: str) -> bytes:
    """Return the content of a file again.

    Raises:
        PlainDataError: It is damaged, or too large.
    """
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(base64.b64decode(text, validate=True), MOST_FILE_BYTES)
    except (ValueError, zlib.error) as error:
        message = f"a file of the job can't be read: {error}"
        raise PlainDataError(message) from error
    if not inflate.eof:
        message = f"a file of the job is damaged, or larger than {MOST_FILE_BYTES} bytes"
        raise PlainDataError(message)
    return data
