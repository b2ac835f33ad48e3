"""Evaluation: held-out loss during training, tasks and samples after it."""
