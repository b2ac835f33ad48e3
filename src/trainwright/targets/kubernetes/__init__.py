"""Kubernetes targets: one renderer a kind over a shared pod template, one client, one watcher."""
