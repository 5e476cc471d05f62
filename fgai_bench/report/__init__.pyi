from .results import Results as Results
from .write import write_report as write_report
