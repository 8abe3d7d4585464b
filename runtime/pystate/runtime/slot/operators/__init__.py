"""Operators at work in a slot: how each family of functions is called, and the life that all of them share.

What runs for each element is a closure made once per operator: one Python call per element and operator, no dispatch.
"""
