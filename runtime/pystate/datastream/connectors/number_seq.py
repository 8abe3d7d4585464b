"""A sequence of numbers as a source, under the name PyFlink has it."""

from __future__ import annotations

from pystate.common.errors import JobGraphError

MOST_NUMBERS = 10_000_000
"""How many numbers a sequence may have: the program carries them."""


class NumberSequenceSource:
    """The numbers from one to another, both among them, in their order; the type is LONG.

    Args:
        start: The first.
        end: The last; below `start` there are none.

    Raises:
        JobGraphError: There are more than 10 million.
    """

    def __init__(self, start: int, end: int) -> None:
        self.numbers = range(start, end + 1)
        if len(self.numbers) > MOST_NUMBERS:
            message = f"NumberSequenceSource({start}, {end}) has {len(self.numbers)} numbers, more than {MOST_NUMBERS}."
            hint = "read Spark's rate source: env.from_data_frame(env.spark.readStream.format('rate-micro-batch')...load())"
            raise JobGraphError(message, hint=hint)
