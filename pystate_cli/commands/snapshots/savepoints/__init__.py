"""`pystate savepoints`: savepoints as versions of a job."""
