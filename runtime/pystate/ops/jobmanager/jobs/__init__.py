"""Local data of jobs in the job manager: folders, records, leftovers."""
