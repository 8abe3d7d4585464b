"""Bootstraps the state of an operator from data: Flink's `OperatorTransformation`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pystate.common.errors import StateError
from pystate.common.type_info import TypeInformation
from pystate.core.api.functions import KeySelector
from pystate.core.api.state import StateDescriptor
from pystate.state_processor.keyed_bootstrap import KeyedBootstrap
from pystate.state_processor.operator_bootstrap import OperatorStateBootstrap
from pystate.state_processor.processor_functions import (
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    StateBootstrapFunction,
)
from pystate.state_processor.state_frames import StateColumn, StatesFromFrame
from pystate.state_processor.transformations import Elements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class OperatorTransformation:
    """The entry point of all transformations."""

    @staticmethod
    def bootstrap_with(data: DataFrame | Iterable[Any]) -> OneInputTransformation:
        """Set the elements for bootstrap functions.

        Args:
            data: A batch DataFrame, whose rows become `Row` objects; or any objects, which are kept in memory.
        """
        return OneInputTransformation(Elements(data))

    @staticmethod
    def states_from_frame(
        frame: DataFrame,
        key: str,
        states: Mapping[str, tuple[StateDescriptor, str | StateColumn]],
        *,
        key_type: TypeInformation | None = None,
        encoded_key: bool = False,
    ) -> StatesFromFrame:
        """Use columns as states, in the format of `SavepointReader.read_keyed_state`: a row per key, or per entry.

        pystate only: no function runs. For reducing and aggregating state the column has the stored value or accumulator.

        Args:
            frame: A batch DataFrame.
            key: The column with the key.
            states: By name of the state, its descriptor and the column with its content. A null skips the key.
            key_type: The type of the keys; None for that of the column.
            encoded_key: Whether the column has the bytes of keys, like `key_bytes`; `key_type` is then their declared type,
                None for untyped.

        Raises:
            StateError: A column is missing, or a name differs from that of the descriptor.
        """
        return StatesFromFrame(frame, key, states, key_type, encoded_key)


class OneInputTransformation:
    """Elements of a non-keyed operator."""

    def __init__(self, elements: Elements) -> None:
        self._elements = elements

    def key_by(
        self, key_selector: str | Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> KeyedOperatorTransformation:
        """Set the key of the elements.

        Args:
            key_selector: The name of a column, or a function from element to key.
            key_type: The type of the keys, the same as in the job's `key_by`; None for that of the column, or untyped for a
                function.

        Raises:
            StateError: There is no such column.
        """
        type_info = self._elements.type_info
        if isinstance(key_selector, str):
            names = [] if type_info is None else type_info.get_field_names()
            if key_selector not in names or type_info is None:
                message = f"The bootstrap data has no column {key_selector!r}; it has: {', '.join(names) or 'none'}."
                raise StateError(message, hint="give key_by() a function from element to key")
            if key_type is None:
                key_type = type_info.elements[names.index(key_selector)]
            return KeyedOperatorTransformation(self._elements, itemgetter(key_selector), key_type, key_selector)
        selector = key_selector.get_key if isinstance(key_selector, KeySelector) else key_selector
        return KeyedOperatorTransformation(self._elements, selector, key_type)

    def transform(self, function: StateBootstrapFunction | BroadcastStateBootstrapFunction) -> OperatorStateBootstrap:
        """Set the function that writes list, union or broadcast state."""
        if not isinstance(function, (StateBootstrapFunction, BroadcastStateBootstrapFunction)):
            message = f"{function!r} writes no operator state."
            raise StateError(message, hint="put key_by(...) before a KeyedStateBootstrapFunction")
        return OperatorStateBootstrap(self._elements, function)


class KeyedOperatorTransformation:
    """Elements of a keyed operator."""

    def __init__(
        self,
        elements: Elements,
        key_of: Callable[[Any], Any],
        key_type: TypeInformation | None,
        key_column: str | None = None,
    ) -> None:
        self._elements = elements
        self._key_of = key_of
        self._key_type = key_type
        self._key_column = key_column

    def transform(self, function: KeyedStateBootstrapFunction) -> KeyedBootstrap:
        """Set the function that writes keyed state."""
        if not isinstance(function, KeyedStateBootstrapFunction):
            message = f"{function!r} is no KeyedStateBootstrapFunction."
            raise StateError(message)
        return KeyedBootstrap(self._elements, self._key_of, self._key_type, function, self._key_column)
