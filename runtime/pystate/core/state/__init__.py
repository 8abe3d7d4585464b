"""Keyed state: the common parts of the backends (`base`) and the backends."""
