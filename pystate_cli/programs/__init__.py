"""Programs of jobs: their arguments, a syntax check, templates of new projects."""
