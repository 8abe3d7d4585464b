"""The hybrid source's names. It isn't there yet."""

from pystate.common.not_there import not_there

__all__ = ["HybridSource", "HybridSourceBuilder"]

_WHY = "sources that follow each other come later."
_HINT = "read both and unite them: first.union(second)"

HybridSource = not_there("HybridSource", _WHY, _HINT)
HybridSourceBuilder = not_there("HybridSourceBuilder", _WHY, _HINT)
