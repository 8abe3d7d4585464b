"""Adapts typer to Flink's command line: flags, help, groups with a default command."""
