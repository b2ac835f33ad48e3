"""Ray: the driver that runs a run's training by Ray Train, wherever the cluster comes from."""
