"""How large the answers to one request may be."""

from __future__ import annotations

from pystate.core.queryable.kv_state_messages import MAX_ANSWER_BYTES, QueryOutcome, StateAnswer, StateVersion


class AnswerRoom:
    """What is left of a request's room for answers, so that none is read that can't be sent.

    Attributes:
        left: How many bytes.
    """

    def __init__(self) -> None:
        self.left = MAX_ANSWER_BYTES

    @property
    def is_whole(self) -> bool:
        """Whether nothing has taken of it yet."""
        return self.left == MAX_ANSWER_BYTES

    def take(self, size: int) -> bool:
        """Take so many bytes of it; return False where there aren't as many."""
        if size > self.left:
            return False
        self.left -= size
        return True

    def refusal(self, size: int, version: StateVersion) -> StateAnswer:
        """Return the answer for what doesn't fit.

        Args:
            size: How many bytes it has.
            version: Of what it is.
        """
        beside = "" if self.is_whole else f", and the answers before it leave {self.left}"
        message = f"What is asked for has {size} bytes; an answer may have {MAX_ANSWER_BYTES}{beside}."
        return StateAnswer(QueryOutcome.TOO_LARGE, version=version, message=message)
