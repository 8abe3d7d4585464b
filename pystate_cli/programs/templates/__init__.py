"""The projects that `pystate new` makes, one module each."""
