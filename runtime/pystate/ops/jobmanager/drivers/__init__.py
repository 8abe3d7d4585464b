"""Driver processes of jobs: started, found again, asked, watched."""
