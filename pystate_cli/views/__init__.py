"""The output of commands: tables for terminals, plain lines for pipes."""
