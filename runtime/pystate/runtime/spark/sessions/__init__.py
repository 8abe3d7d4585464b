"""Spark sessions of drivers: their settings, secrets, connections and local folders."""
