"""Kafka read in slots: partitions as splits, their enumerator, reader and fetcher."""
