"""The messages of REST: a class per answer, from which JSON, OpenAPI, its page and the command line's client follow."""
