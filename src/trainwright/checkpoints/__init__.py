"""Checkpoints: a folder format that proves itself, its commit protocol, and the manager that saves and loads.

Only ``dcp.py`` imports torch; ``manager.py`` uses it. Everything else reads checkpoints where torch is not installed.
"""
