"""Driver processes of jobs: starting, finding, calling and watching them."""
