"""Sources that follow each other, under the module name PyFlink has them."""

from pystate.connectors.hybrid import HybridSource, HybridSourceBuilder

__all__ = ["HybridSource", "HybridSourceBuilder"]
