"""Readers of datasets: one file per raw format or generator."""
