"""The client of the job manager: finding or starting it, REST calls, errors in answers."""
