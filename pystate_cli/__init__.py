"""The command line of pystate. It talks REST to the job manager and imports no Spark."""
