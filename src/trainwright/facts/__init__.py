"""What is true of the world, as data with source and date: one loader per table, each read on first use."""
