"""The model registry: export, gate, versions with proof of every byte, and the stage that ends a run."""
