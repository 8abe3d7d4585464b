"""Keyed state: what every backend shares (`base`) and the backends."""
