"""The web server of the REST endpoint: connections, heads of requests, who may ask."""
