"""Slurm: a run as a chain of batch jobs. ``script.py`` is the sbatch file, ``client.py`` the commands."""
