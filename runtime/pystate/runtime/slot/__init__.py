"""The slot process: operators, the epoch transaction, the exchange protocol."""
