"""`pystate dev`: a job that goes on with the new code at each save of its program."""
