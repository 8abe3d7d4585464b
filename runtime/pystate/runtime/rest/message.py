"""What all messages of REST are: frozen, with the names of Flink's JSON beside their own, and read leniently."""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn

from pystate.common.errors import PystateError
from pystate.common.text.plain_data import Pattern, PlainData, entry, unless_none

if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        """Do nothing: it is for type checkers, and Python 3.10 has none."""
        return lambda cls: cls


HexId = Annotated[str, Pattern("^[0-9a-f]{32}$")]
"""The id of a job, a vertex or a trigger."""


class UnreadableAnswerError(PystateError, ValueError):
    """An answer of REST is not what this version takes it for."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(entry, unless_none, field))
class RestMessage(PlainData):
    """Base of messages: subclasses are frozen dataclasses whose fields are given by name.

    Job managers and command lines of other versions send them too: what isn't known here is ignored, and what has a default
    may be missing. All of them share these few methods, since a dataclass's own take a command half a millisecond each.
    """

    missing_is_default: ClassVar[bool] = True
    __dataclass_fields__: ClassVar[dict[str, Any]]
    _names: ClassVar[frozenset[str]]
    _defaults: ClassVar[dict[str, Any]]
    _factories: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False, kw_only=True)(cls)
        own = fields(cls)
        cls._names = frozenset(one.name for one in own)
        cls._defaults = {one.name: one.default for one in own if one.default is not MISSING}
        cls._factories = {one.name: one.default_factory for one in own if one.default_factory is not MISSING}

    def __init__(self, **values: Any) -> None:
        made = {name: make() for name, make in self._factories.items() if name not in values}
        self.__dict__.update({**self._defaults, **made, **values})
        if self.__dict__.keys() != self._names:
            wrong = sorted(self.__dict__.keys() ^ self._names)
            message = f"the fields of a {type(self).__name__} are others: {', '.join(wrong)}"
            raise TypeError(message)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(name)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    @classmethod
    def plain_error(cls, what: str) -> Exception:
        """Return the error for JSON that is something else."""
        message = f"The job manager's answer can't be read: {what}."
        return UnreadableAnswerError(message)


class EmptyResponseBody(RestMessage):
    """Nothing more to say."""
