"""Avro: schemas, what their data are as rows, and the bytes of one datum."""
