"""One job under supervision: its record and driver, what is asked of it, and the registry of all of them."""
