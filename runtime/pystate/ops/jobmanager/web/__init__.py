"""The web server of the REST endpoint: connections, request headers, security."""
