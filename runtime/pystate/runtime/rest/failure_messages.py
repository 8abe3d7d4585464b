"""What failed, in Flink's shape and in ours."""

from __future__ import annotations

from pystate.common.errors import PystateError, error_from_dict
from pystate.common.text.plain_data import entry, unless_none
from pystate.runtime.rest.message import RestMessage


class OurError(RestMessage):
    """An error as people see it.

    Attributes:
        class_name: The name of its class.
        message: What happened.
        where: Where.
        hint: What to do about it.
        table: Rows that belong to the message.
    """

    class_name: str = entry("class")
    message: str
    where: str | None = None
    hint: str | None = None
    table: list[list[str]] | None = unless_none(default=None)

    def error(self) -> PystateError:
        """Return it as an error of this process; one of an unknown class as a plain `PystateError`."""
        return error_from_dict(self.to_plain())


class KeptRecordInfo(RestMessage):
    """A record at which a function has failed, kept for `pystate debug`.

    Attributes:
        number: What `pystate debug JOB NUMBER` calls it.
        file: Where it is, on the machine of the driver.
        operator: The operator that took it.
        uid: The operator's uid.
        subtask: The subtask that took it.
    """

    number: int
    file: str
    operator: str
    uid: str
    subtask: int


class AttemptError(OurError):
    """The failure of an execution attempt.

    Attributes:
        attempt: Its number.
        record: The record at which it failed; missing where none is kept.
    """

    attempt: int
    record: KeptRecordInfo | None = unless_none(default=None)


class ErrorResponseBody(RestMessage):
    """What every refused request is answered with.

    Attributes:
        errors: What happened.
        outcome: Of a query of state: why there is no answer.
        pystate: The same with place and hint, for requests with the header `pystate-client`.
    """

    errors: list[str]
    outcome: str | None = unless_none(default=None)
    pystate: OurError | None = unless_none(default=None)


class FailureCause(RestMessage):
    """Why something failed.

    Attributes:
        class_name: The name of the error's class; where a function of the job raised it, the author's.
        stack_trace: Its stack trace.
        serialized_throwable: The Java object that Flink's client rebuilds, in base64.
        pystate: The same with place and hint.
    """

    class_name: str = entry("class")
    stack_trace: str = entry("stack-trace")
    serialized_throwable: str = entry("serialized-throwable")
    pystate: OurError
