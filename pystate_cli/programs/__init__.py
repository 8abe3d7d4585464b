"""The program of a job: its words on the command line, a first look at its file, the files of a new one."""
