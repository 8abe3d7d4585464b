"""The routes of REST, a module per subject, each with its handlers."""
