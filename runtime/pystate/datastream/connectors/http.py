"""Services that speak HTTP: a sink."""

from __future__ import annotations

from pystate.connectors.async_sink.refused_elements import RefusedElements
from pystate.connectors.http import HttpBodyFormat, HttpSink, HttpSinkBuilder

__all__ = ["HttpBodyFormat", "HttpSink", "HttpSinkBuilder", "RefusedElements"]
