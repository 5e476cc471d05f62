from .catalogue import SUITES as SUITES
from .load import SuiteError as SuiteError
from .load import load_suite as load_suite
from .overrides import resolve as resolve
from .schema import Suite as Suite
