"""The operators of a slot: how each family of functions is called, and their common lifecycle.

The code per element is a closure created once per operator: one Python call per element and operator, no dispatch.
"""
