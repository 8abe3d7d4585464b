"""Messages of REST made of the few fields that a test is about."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pystate.common.text.plain_data import entries
from pystate.runtime.rest.message import RestMessage

Message = TypeVar("Message", bound=RestMessage)


def message(kind: type[Message], plain: Mapping[str, Any]) -> Message:
    """Return a message read from JSON; fields that are missing there are 0, empty or null, also in those within it."""
    return kind.from_plain(_filled(kind, plain))


def _fits(kind: type[RestMessage], plain: Any) -> bool:
    """Whether a message can be of a kind, where others may stand: its status says so."""
    status = entries(kind).get("status")
    return status is None or plain is ... or plain.get("status") in (get_args(status.kind) or [plain.get("status")])


def _filled(kind: Any, plain: Any = ...) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _filled(arguments[0], plain)
    if origin in (Union, UnionType):
        if plain is None or (plain is ... and type(None) in arguments):
            return None
        messages = [one for one in arguments if isinstance(one, type) and issubclass(one, RestMessage)]
        if plain is ... or messages:
            return _filled(next((one for one in messages if _fits(one, plain)), arguments[0]), plain)
        return plain
    if origin in (list, tuple):
        return [_filled(arguments[0], one) for one in (() if plain is ... else plain)]
    if origin is dict:
        keys = (
            [one.value for one in arguments[0]] if isinstance(arguments[0], type) and issubclass(arguments[0], Enum) else ()
        )
        given = {} if plain is ... else plain
        return {
            key: _filled(arguments[1], given.get(key, ...)) for key in (*keys, *(key for key in given if key not in keys))
        }
    if isinstance(kind, type) and issubclass(kind, RestMessage):
        given = {} if plain is ... else plain
        own = {one.key: one for one in entries(kind).values()}
        needed = {key for key, one in own.items() if key in given or not (one.has_default or one.unless_none)}
        return {key: _filled(own[key].kind, given.get(key, ...)) for key in own if key in needed}
    if plain is not ...:
        return plain
    if origin is Literal:
        return arguments[0]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind)).value
    return None if kind in (Any, type(None)) else kind()
