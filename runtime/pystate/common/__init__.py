"""Ground floor: options, types, time, key groups, errors. Imports nothing else of pystate."""

from __future__ import annotations

from pystate.common.configuration import Configuration
from pystate.common.row import Row, RowKind
from pystate.common.time import Duration, Instant, Time
from pystate.common.type_info import TypeInformation, Types

__all__ = ["Configuration", "Duration", "Instant", "Row", "RowKind", "Time", "TypeInformation", "Types"]
