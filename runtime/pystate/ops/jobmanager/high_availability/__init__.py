"""Job managers that stand in for each other: lease, election, and what those answer that don't lead."""
