"""One file per architecture: shape from its config, names of its modules. Registry: ``models.FAMILIES``."""
