"""The first elements of a stream, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, overload

from pystate.common.overrides import override
from pystate.common.row import Row
from pystate.common.text.html_view import html_table, plain_table
from pystate.common.type_info import TypeInformation

if TYPE_CHECKING:
    from pandas import DataFrame


class PreviewEnd(Enum):
    """Why a preview has no more elements."""

    ENOUGH = "there may be more"
    END_OF_INPUT = "all there are"
    TIME_IS_OVER = "no more within {seconds:g} s"


class Preview(Sequence[Any]):
    """The first elements of a stream: a list that shows itself as a table, in a notebook as HTML.

    Args:
        elements: The elements.
        type_info: Their type; None if it isn't declared.
        ended: Why there are no more.
        seconds: How long the program would have waited.

    Attributes:
        ended: Why there are no more.
    """

    def __init__(
        self, elements: Sequence[Any], type_info: TypeInformation | None, ended: PreviewEnd, seconds: float
    ) -> None:
        self._elements = list(elements)
        self.ended = ended
        self._note = f"{len(self._elements)} elements, {ended.value.format(seconds=seconds)}"
        names = list(type_info.names or ()) if type_info is not None else []
        self._fields = bool(names) or (bool(elements) and all(isinstance(one, (Row, tuple)) for one in elements))
        if self._fields:
            if not names and isinstance(elements[0], Row):
                names = elements[0].get_field_names() or []
            width = max(len(names), *map(len, elements)) if elements else len(names)
            names += [f"f{number}" for number in range(len(names), width)]
        self._columns = names if self._fields else ["value"]

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    @override
    def __getitem__(self, index: int | slice) -> Any:
        return self._elements[index]

    @override
    def __len__(self) -> int:
        return len(self._elements)

    @override
    def __iter__(self) -> Iterator[Any]:
        return iter(self._elements)

    def __eq__(self, other: object) -> bool:
        """Compare the elements with those of another preview or list."""
        return self._elements == (other._elements if isinstance(other, Preview) else other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def columns(self) -> list[str]:
        """The names of the columns: those of the fields, f0, f1, ... where they have none, `value` without fields."""
        return list(self._columns)

    def to_pandas(self) -> DataFrame:
        """Return the elements as a DataFrame of pandas, a row each."""
        import pandas as pd

        return pd.DataFrame(self._rows(), columns=self._columns)

    def __repr__(self) -> str:
        """Return the table as text."""
        return f"{plain_table(self._columns, self._rows())}\n({self._note})"

    def _repr_html_(self) -> str:
        return html_table(self._columns, self._rows(), self._note)

    def _rows(self) -> list[list[Any]]:
        if not self._fields:
            return [[element] for element in self._elements]
        width = len(self._columns)
        return [[*element, *[None] * (width - len(element))] for element in self._elements]
