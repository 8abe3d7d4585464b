"""The micro-batch engine in a slot: epochs as transactions, fed by exchanges."""
