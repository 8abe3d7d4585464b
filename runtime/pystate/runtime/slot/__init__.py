"""The slot process: operator chains, timers, snapshots, metrics and queryable state."""
