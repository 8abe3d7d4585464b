"""What builds a release, and tries it with other versions of Python, Spark and pandas."""
