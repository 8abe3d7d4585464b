"""The sink to Kafka: its writers, transactions, commit markers and registers."""
