"""What stands for Spark's session, and all that is made with it, where a program is looked at without Spark."""

from __future__ import annotations

from typing import Any, NoReturn


class NeedsSparkError(BaseException):
    """The program asks a `SparkObject` for a value; not an `Exception`, so that the program doesn't catch it."""


class SparkObject:
    """A session, reader, DataFrame or column without Spark: whatever is done with it gives itself.

    A program may go on with it as far as it describes data; where it needs a value, `NeedsSparkError` ends it.
    """

    def __getattr__(self, name: str) -> SparkObject:
        """Return itself for any method or field."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def _itself(self, *_: Any, **__: Any) -> SparkObject:
        return self

    def _needed(self, *_: Any) -> NoReturn:
        raise NeedsSparkError

    def __repr__(self) -> str:
        """Say what it is."""
        return "(known to Spark alone)"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be pickled, as Spark's objects do."""
        message = "it belongs to the driver's Spark session"
        raise TypeError(message)

    __call__ = __getitem__ = _itself
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __mod__ = __neg__ = _itself
    __lt__ = __le__ = __gt__ = __ge__ = __and__ = __rand__ = __or__ = __ror__ = __invert__ = _itself
    __eq__ = __ne__ = _itself  # type: ignore[assignment]  # as columns have them
    __hash__ = object.__hash__
    __bool__ = __iter__ = __len__ = __int__ = __float__ = __index__ = __contains__ = _needed


# for messages about functions that hold one: to the author it is Spark's
SparkObject.__module__, SparkObject.__qualname__ = "pyspark.sql", "SparkSession, or what was made with it"
