"""Faster starts of drivers: spare drivers, and the training of class data."""
