"""The execution of a task: from row batches to function calls, with their watermarks."""
