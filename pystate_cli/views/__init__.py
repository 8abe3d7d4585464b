"""What commands show: a table for terminals, plain lines for pipes."""
