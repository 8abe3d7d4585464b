"""The steps of a rescale, and of a return to an earlier state: the command line and the job manager share them."""
