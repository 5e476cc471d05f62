from .checks import Check as Check
from .checks import CheckFailed as CheckFailed
from .checks import CheckResult as CheckResult
from .checks import CheckSkipped as CheckSkipped
from .contracts import checks_of as checks_of
from .contracts import run_checks as run_checks
from .contracts import subject_of as subject_of
