"""The job manager: runs jobs, each in a driver process, and serves Flink's REST API."""
