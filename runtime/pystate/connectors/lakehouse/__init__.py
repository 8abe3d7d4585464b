"""What sinks and sources of tables made of data files share, whichever format has the log: staging, commits, columns."""
