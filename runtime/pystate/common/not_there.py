"""PyFlink names that can be imported but aren't supported: using them raises an error with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pystate.common.errors import JobGraphError


class NotThere(type):
    """The metaclass of unsupported names. Calling one, or a method of it, raises an error; annotations are fine."""

    why: str
    hint: str | None

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to make one.

        Raises:
            JobGraphError: Always; says why, and what to do instead.
        """
        cls._refuse(cls.__name__)

    def __getattr__(cls, name: str) -> Callable[..., NoReturn]:
        """Return a method that raises when called."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: cls._refuse(f"{cls.__name__}.{name}()")

    def _refuse(cls, what: str) -> NoReturn:
        message = f"{what} is not there: {cls.why}"
        raise JobGraphError(message, hint=cls.hint)


def not_there(name: str, why: str, hint: str | None = None) -> Any:
    """Return a class that raises when used.

    Args:
        name: What it is called.
        why: A sentence, for the error.
        hint: What to do instead.
    """
    return NotThere(name, (), {"why": why, "hint": hint, "__doc__": why})


def no_tables(name: str) -> Any:
    """Return an unsupported name of the Table API: use Spark SQL."""
    why = "there is no Table API; SQL here is Spark's own, over DataFrames."
    hint = (
        "begin with env.from_data_frame(...), end with stream.to_data_frame() or, where the input has no end, with "
        "stream.for_each_batch(...), and ask the DataFrames with Spark SQL"
    )
    return not_there(name, why, hint)
