"""The Kafka connector, on confluent-kafka; its public API is `pystate.datastream.connectors.kafka`."""
