"""Queryable state: looking into a running job. See `docs/queryable-state.md`."""
