"""The slot side of the micro-batch engine: epochs as transactions, fed by exchanges."""
