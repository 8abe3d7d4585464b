"""How queries fail: a class for each outcome, so that programs can tell them apart. Flink's names, where it has one."""

from __future__ import annotations

from typing import ClassVar

from pystate.common.errors import ControlError, JobNotFoundError, PystateError
from pystate.core.queryable.outcomes import QueryOutcome


class QueryableStateError(PystateError):
    """A query found nothing, or was refused.

    Attributes:
        outcome: What the job answered.
    """

    outcome: ClassVar[QueryOutcome]
    remedy: ClassVar[str]


class UnknownJobError(QueryableStateError, JobNotFoundError):
    """The proxy is another job's."""

    outcome = QueryOutcome.UNKNOWN_JOB
    remedy = "pystate list; the driver's log says on which port its proxy listens"


class UnknownKvStateLocationError(QueryableStateError):
    """The job has no queryable state of this name (Flink's UnknownKvStateLocation)."""

    outcome = QueryOutcome.UNKNOWN_STATE
    remedy = "pystate query JOB lists the queryable states; descriptor.set_queryable(NAME) makes one of a state"


class UnknownKeyOrNamespaceError(QueryableStateError):
    """The state has no value for this key and namespace (Flink's UnknownKeyOrNamespaceException)."""

    outcome = QueryOutcome.NO_VALUE
    remedy = "a new key shows at once with the consistency live, else after the next checkpoint"


class WrongKeyTypeError(QueryableStateError):
    """The key is of another type than the state's keys."""

    exit_code = 2
    outcome = QueryOutcome.WRONG_KEY_TYPE
    remedy = "give a key of the type that the job's key_by declares; pystate query JOB shows it"


class WrongNamespaceError(QueryableStateError):
    """The namespace is of another type than the state's, or missing."""

    exit_code = 2
    outcome = QueryOutcome.WRONG_NAMESPACE
    remedy = "window state is asked with its window (start, end) in ms since 1970, other state without a namespace"


class WrongStateTypeError(QueryableStateError):
    """The descriptor that was given declares another state than the job's."""

    outcome = QueryOutcome.BAD_REQUEST
    remedy = "give the descriptor of the job's program, or leave it out"


class UnknownLocationError(QueryableStateError):
    """The job is restarting, or hasn't started yet (Flink's UnknownLocationException)."""

    outcome = QueryOutcome.NOT_SERVING
    remedy = "ask again in a moment, or give the client a longer timeout"


class QueryForbiddenError(QueryableStateError):
    """The token that the client proves isn't one that may read this job's state."""

    outcome = QueryOutcome.FORBIDDEN
    remedy = "set PYSTATE_HOME to the home that the job runs in, or pystate.rest.token-file to the file with its token"


class VersionGoneError(QueryableStateError):
    """The version that a cursor goes on in isn't kept any more."""

    outcome = QueryOutcome.VERSION_GONE
    remedy = "begin again without the cursor"


class AnswerTooLargeError(QueryableStateError):
    """Request or answer is larger than what is sent at once."""

    outcome = QueryOutcome.TOO_LARGE
    remedy = "ask for fewer keys at a time; pystate state read shows values of any size in a savepoint"


class QueriesOverloadedError(QueryableStateError):
    """More is asked of the job than pystate.queryable-state.max-reads-per-second allows."""

    outcome = QueryOutcome.OVERLOADED
    remedy = "ask less often, or raise pystate.queryable-state.max-reads-per-second"


class BadQueryError(QueryableStateError):
    """The request is malformed."""

    outcome = QueryOutcome.BAD_REQUEST
    remedy = "put that right; where a client of pystate has made the request, use its version that the job has"


class ProxyUnreachableError(ControlError):
    """Nobody who answers queries listens at the address."""


# of the two with BAD_REQUEST the later one: the other is raised by the client itself
_CLASSES = {kind.outcome: kind for kind in QueryableStateError.__subclasses__()}


def query_error(outcome: QueryOutcome, message: str, where: str | None = None) -> QueryableStateError:
    """Return the error of an outcome that isn't OK.

    Args:
        outcome: How the query ended.
        message: What the job said; its class's own words where that is nothing.
        where: What was asked.
    """
    kind = _CLASSES[outcome]
    said = message or (kind.__doc__ or "").partition("\n")[0].partition(" (Flink's")[0].rstrip(".") + "."
    return kind(said, where=where, hint=kind.remedy)
