"""Protobuf: messages of generated classes as rows."""
