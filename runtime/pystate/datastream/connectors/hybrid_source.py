"""The hybrid source, under PyFlink's module name."""

from pystate.connectors.hybrid import HybridSource, HybridSourceBuilder

__all__ = ["HybridSource", "HybridSourceBuilder"]
