"""``python -m fgai_bench.cli`` is ``fgai-bench``."""

import sys

from fgai_bench.cli.app import main

sys.exit(main())
