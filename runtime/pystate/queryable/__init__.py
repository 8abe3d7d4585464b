"""Queryable state: reads the state of a running job. See `docs/queryable-state.md`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pystate.core.queryable.kv_state_messages import Consistency as Consistency
    from pystate.core.queryable.query_errors import AnswerTooLargeError as AnswerTooLargeError
    from pystate.core.queryable.query_errors import BadQueryError as BadQueryError
    from pystate.core.queryable.query_errors import ProxyUnreachableError as ProxyUnreachableError
    from pystate.core.queryable.query_errors import QueriesOverloadedError as QueriesOverloadedError
    from pystate.core.queryable.query_errors import QueryableStateError as QueryableStateError
    from pystate.core.queryable.query_errors import QueryForbiddenError as QueryForbiddenError
    from pystate.core.queryable.query_errors import UnknownJobError as UnknownJobError
    from pystate.core.queryable.query_errors import UnknownKeyOrNamespaceError as UnknownKeyOrNamespaceError
    from pystate.core.queryable.query_errors import UnknownKvStateLocationError as UnknownKvStateLocationError
    from pystate.core.queryable.query_errors import UnknownLocationError as UnknownLocationError
    from pystate.core.queryable.query_errors import VersionGoneError as VersionGoneError
    from pystate.core.queryable.query_errors import WrongKeyTypeError as WrongKeyTypeError
    from pystate.core.queryable.query_errors import WrongNamespaceError as WrongNamespaceError
    from pystate.core.queryable.query_errors import WrongStateTypeError as WrongStateTypeError
    from pystate.queryable.client import QueryableStateClient as QueryableStateClient
    from pystate.queryable.requests import KvStateRequest as KvStateRequest

_ERRORS = (
    "AnswerTooLargeError",
    "BadQueryError",
    "ProxyUnreachableError",
    "QueriesOverloadedError",
    "QueryForbiddenError",
    "QueryableStateError",
    "UnknownJobError",
    "UnknownKeyOrNamespaceError",
    "UnknownKvStateLocationError",
    "UnknownLocationError",
    "VersionGoneError",
    "WrongKeyTypeError",
    "WrongNamespaceError",
    "WrongStateTypeError",
)
_WHERE = {
    "QueryableStateClient": "pystate.queryable.client",
    "Consistency": "pystate.core.queryable.kv_state_messages",
    "KvStateRequest": "pystate.queryable.requests",
    **dict.fromkeys(_ERRORS, "pystate.core.queryable.query_errors"),
}

__all__ = tuple(_WHERE)  # noqa: PLE0605 - names of classes that are imported when they are used


def __getattr__(name: str) -> Any:
    """Import the client's names on first use."""
    module = _WHERE.get(name)
    if module is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(module), name)
