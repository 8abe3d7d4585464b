"""What failures of a job mean: whether it starts again, and what people can do."""
