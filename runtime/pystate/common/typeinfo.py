"""The types, under the module name PyFlink has them."""

from pystate.common.type_info import TypeInformation, Types

__all__ = ["TypeInformation", "Types"]
