"""The kinds of state over any backend: values, lists, maps and what is derived, each with its running epoch."""
