"""Limits the size of the answers to one request."""

from __future__ import annotations

from pystate.core.queryable.kv_state_messages import MAX_ANSWER_BYTES, QueryOutcome, StateAnswer, StateVersion


class AnswerRoom:
    """The remaining size of a request's answers, so that no answer is read that can't be sent.

    Attributes:
        left: The remaining bytes.
    """

    def __init__(self) -> None:
        self.left = MAX_ANSWER_BYTES

    @property
    def is_whole(self) -> bool:
        """Whether nothing has been taken yet."""
        return self.left == MAX_ANSWER_BYTES

    def take(self, size: int) -> bool:
        """Take that many bytes; return False if fewer remain."""
        if size > self.left:
            return False
        self.left -= size
        return True

    def refusal(self, size: int, version: StateVersion) -> StateAnswer:
        """Return the answer for a value that doesn't fit.

        Args:
            size: Its size in bytes.
            version: The version that it was read from.
        """
        beside = "" if self.is_whole else f", and the answers before it leave {self.left}"
        message = f"What is asked for has {size} bytes; an answer may have {MAX_ANSWER_BYTES}{beside}."
        return StateAnswer(QueryOutcome.TOO_LARGE, version=version, message=message)
