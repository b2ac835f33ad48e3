"""The local target: a run on this machine, under a supervisor that outlives the command line."""
