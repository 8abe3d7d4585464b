"""Kafka read by Spark's connector, and what brokers are asked through its Java client."""
