from tests.servers.kafka_broker import kafka

__all__ = ["kafka"]
