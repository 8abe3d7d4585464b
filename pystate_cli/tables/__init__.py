"""One specification per table, from which its form for terminals, for pipes and for programs follows."""
