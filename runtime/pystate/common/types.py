"""Rows, under the module name PyFlink has them."""

from pystate.common.row import Row, RowKind

__all__ = ["Row", "RowKind"]
