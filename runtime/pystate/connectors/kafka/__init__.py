"""Kafka, over confluent-kafka: what programs name is in `pystate.datastream.connectors.kafka`."""
