"""A schema registry, as Confluent's clients know it: its client, its serializers, and subjects."""
