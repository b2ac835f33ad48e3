"""The spec: what to train, read from YAML into frozen values with the position of every field."""
