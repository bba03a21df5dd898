"""The verbs of the program as functions: what the command line, and later the service, call.

Composition root: the only place where studies, store, workers and reports meet. Heavy packages
are imported inside the functions that need them.
"""

from __future__ import annotations

from tuner.api.answer import best
from tuner.api.common import all_operators
from tuner.api.common import find_operator
from tuner.api.database import backup_database
from tuner.api.database import check_database
from tuner.api.database import database_info
from tuner.api.database import upgrade_database
from tuner.api.machine import compile_operator
from tuner.api.machine import diagnose
from tuner.api.machine import list_devices
from tuner.api.reading import export_source
from tuner.api.reading import history
from tuner.api.reading import list_studies
from tuner.api.reading import list_trials
from tuner.api.reading import show_trial
from tuner.api.studies import run_study
from tuner.api.studies import StudyResult

__all__ = [
    "StudyResult",
    "all_operators",
    "backup_database",
    "best",
    "check_database",
    "compile_operator",
    "database_info",
    "diagnose",
    "export_source",
    "find_operator",
    "history",
    "list_devices",
    "list_studies",
    "list_trials",
    "run_study",
    "show_trial",
    "upgrade_database",
]
