"""Spare drivers: warmed up, without a job yet."""
