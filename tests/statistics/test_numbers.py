"""What CSV files keep of numbers and texts."""

from __future__ import annotations

import csv
import io
import math

from fgai_bench.statistics.numbers import as_csv, as_filed


def test_a_number_that_a_file_keeps_is_read_back_as_it_was_filed():
    for value in (1 / 3, -2e-17 / 3, 123456789.0123, 0.0, math.pi * 1e300):
        (line,) = csv.reader(io.StringIO(as_csv([[value]])))
        assert float(line[0]) == as_filed(value)
        assert math.isclose(as_filed(value), value, rel_tol=1e-6)
