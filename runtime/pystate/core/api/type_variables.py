"""Type variables of generic functions, states and sinks: programs write `ProcessWindowFunction[tuple, str, str, Window]`.

Each defaults to Any, so a program may omit all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["IN", "IN1", "IN2", "KEY", "OUT", "CommittableT", "K", "T", "V", "W", "W2", "WriterStateT"]

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    W = TypeVar("W", default=Any)
    W2 = TypeVar("W2", default=Any)
    IN = TypeVar("IN", default=Any)
    IN1 = TypeVar("IN1", default=Any)
    IN2 = TypeVar("IN2", default=Any)
    OUT = TypeVar("OUT", default=Any)
    KEY = TypeVar("KEY", default=Any)
    CommittableT = TypeVar("CommittableT", default=Any)
    WriterStateT = TypeVar("WriterStateT", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")
    K = TypeVar("K")
    V = TypeVar("V")
    W = TypeVar("W")
    W2 = TypeVar("W2")
    IN = TypeVar("IN")
    IN1 = TypeVar("IN1")
    IN2 = TypeVar("IN2")
    OUT = TypeVar("OUT")
    KEY = TypeVar("KEY")
    CommittableT = TypeVar("CommittableT")
    WriterStateT = TypeVar("WriterStateT")
