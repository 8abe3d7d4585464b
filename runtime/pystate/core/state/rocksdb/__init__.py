"""The RocksDB backend: keyed state on local disk, larger than memory (Flink's EmbeddedRocksDBStateBackend)."""
