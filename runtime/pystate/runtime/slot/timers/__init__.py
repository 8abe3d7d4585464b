"""Timers: who registers them, who makes them fire."""
