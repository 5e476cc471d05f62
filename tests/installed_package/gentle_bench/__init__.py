"""Somebody else's package: one entry of every kind, found by its entry points alone."""
