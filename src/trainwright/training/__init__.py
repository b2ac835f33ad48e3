"""What runs on each rank: one trainer, started by torchrun's elastic API on every target alike."""
