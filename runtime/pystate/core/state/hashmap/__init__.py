"""The hashmap backend: keyed state as objects in memory (Flink's HashMapStateBackend)."""
