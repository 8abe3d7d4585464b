"""What a program becomes, free of Spark: tasks, their chains and outputs, and where they run."""
