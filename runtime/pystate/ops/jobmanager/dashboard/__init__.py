"""The dashboard: pages for browsers, made of what REST answers."""
