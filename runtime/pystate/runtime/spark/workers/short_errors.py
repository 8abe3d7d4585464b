"""Truncates errors of user functions in Spark tasks, since Spark copies and logs them for each task attempt."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from pystate.common.text.bounded_text import MAX_MESSAGE, bounded_text

BatchStage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def with_short_errors(stage: BatchStage) -> BatchStage:
    """Wrap a stage so that the messages of its exceptions have bounded length."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from stage(batches)
        except Exception as error:
            if len(str(error)) <= MAX_MESSAGE:
                raise
            raise short_error(error) from None

    return run


def short_error(error: Exception) -> Exception:
    """Return an exception of the same name and traceback in user code, with the beginning and end of the message."""
    kind = type(error)
    made: Exception = type(kind.__name__, (Exception,), {"__module__": kind.__module__})(bounded_text(str(error)))
    return made.with_traceback(error.__traceback__)
