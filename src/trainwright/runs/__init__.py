"""Runs: their identity, folder, events and state. Plain files and values; no torch."""
