"""Findings as text for a person, JSON, and later the formats that CI systems read."""
