"""Tables of a report: what stands in each, how its cells are filled from the results, how it is written."""
