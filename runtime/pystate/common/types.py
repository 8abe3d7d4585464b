"""Rows, under PyFlink's module name."""

from pystate.common.row import Row, RowKind

__all__ = ["Row", "RowKind"]
