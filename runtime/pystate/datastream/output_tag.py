"""Side outputs, under the module name PyFlink has them."""

from pystate.api.output_tag import OutputTag

__all__ = ["OutputTag"]
