"""How typer is bent to Flink's ways: its flags, its help, a group with a default command."""
