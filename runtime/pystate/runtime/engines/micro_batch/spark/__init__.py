"""What the micro-batch engine needs of Spark: query, stages and exchange, proofs of whole epochs, logs as a `SourceCut`."""
