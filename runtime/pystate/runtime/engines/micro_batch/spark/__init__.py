"""The Spark side of the micro-batch engine: query, stages and exchange, proofs of complete epochs, logs as a `SourceCut`."""
