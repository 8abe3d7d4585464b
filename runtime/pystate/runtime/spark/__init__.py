"""Runs job graphs as streaming queries; the only package, besides the driver, that depends on Spark."""
