"""Leaderboards: their rows, which runs may enter, how runs are merged, and the CSV files."""
