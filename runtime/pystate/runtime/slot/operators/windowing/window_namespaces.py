"""Windows as namespaces of state and timers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Any

from pystate.common.serializer import TypeSerializer
from pystate.common.type_info import TypeInformation, Types
from pystate.core.api.window.assigners import WindowAssigner
from pystate.core.api.window.windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
)
from pystate.core.state.keys.namespaces import TIME_WINDOWS, KeyNamespaceSerializer, NamespaceSerializer

_GLOBAL = 0


class WindowNamespaces(ABC):
    """Converts the windows of an assigner to namespaces and back.

    Attributes:
        serializer: The serializer of the namespaces.
        type_info: The type of a namespace as a key or a value in a map.
    """

    serializer: NamespaceSerializer
    type_info: TypeInformation

    @abstractmethod
    def of(self, window: Any) -> Any:
        """Return the namespace of a window."""

    @abstractmethod
    def window(self, namespace: Any) -> Any:
        """Return the window of a namespace."""


class TimeWindowNamespaces(WindowNamespaces):
    """Time windows: their start and end."""

    serializer = TIME_WINDOWS
    type_info = Types.TUPLE([Types.LONG(), Types.LONG()])

    def of(self, window: TimeWindow) -> Any:
        """Return start and end."""
        return window.start, window.end

    def window(self, namespace: Any) -> TimeWindow:
        """Return the window with that start and end."""
        return TimeWindow(*namespace)


class CountWindowNamespaces(WindowNamespaces):
    """Numbered windows: their number."""

    type_info = Types.LONG()
    serializer = KeyNamespaceSerializer(type_info)

    def of(self, window: CountWindow) -> Any:
        """Return the number."""
        return window.id

    def window(self, namespace: Any) -> CountWindow:
        """Return the window with that number."""
        return CountWindow(namespace)


class GlobalWindowNamespaces(WindowNamespaces):
    """The global window: the byte 0. It is not the void namespace, so that a window's states differ from the key's."""

    type_info = Types.BYTE()
    serializer = KeyNamespaceSerializer(type_info)

    def of(self, window: GlobalWindow) -> Any:
        """Return 0."""
        return _GLOBAL

    def window(self, namespace: Any) -> GlobalWindow:
        """Return the global window."""
        return GlobalWindow()


class OwnWindowNamespaces(WindowNamespaces):
    """User-defined windows: the bytes written by their serializer.

    Args:
        windows: The program's serializer.
    """

    type_info = Types.PRIMITIVE_ARRAY(Types.BYTE())
    serializer = KeyNamespaceSerializer(type_info)

    def __init__(self, windows: TypeSerializer[Any]) -> None:
        self._windows = windows

    def of(self, window: Any) -> Any:
        """Return the bytes of a window."""
        stream = BytesIO()
        self._windows.serialize(window, stream)
        return stream.getvalue()

    def window(self, namespace: Any) -> Any:
        """Return the window read from its bytes."""
        return self._windows.deserialize(BytesIO(namespace))


def window_namespaces(assigner: WindowAssigner) -> WindowNamespaces:
    """Return the namespaces of an assigner's windows."""
    serializer = assigner.get_window_serializer()
    if type(serializer) is TimeWindowSerializer:
        return TimeWindowNamespaces()
    if type(serializer) is CountWindowSerializer:
        return CountWindowNamespaces()
    if type(serializer) is GlobalWindowSerializer:
        return GlobalWindowNamespaces()
    return OwnWindowNamespaces(serializer)
