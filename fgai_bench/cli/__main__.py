"""Run ``fgai-bench`` when called as ``python -m fgai_bench.cli``."""

import sys

from fgai_bench.cli.app import main

sys.exit(main())
