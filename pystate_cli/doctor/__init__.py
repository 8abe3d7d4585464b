"""The checks of `pystate doctor`, one module per area."""
