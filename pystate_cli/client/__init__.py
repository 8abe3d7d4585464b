"""The way to the job manager: finding or starting it, its REST, what its answers say of failures."""
