"""The verbs of the program as functions: what the command line, and later the service, call.

Composition root: the only place where studies, store, workers and reports meet. Heavy packages
are imported inside the functions that need them.
"""

from __future__ import annotations

from tuner.api.answer import best
from tuner.api.common import all_operators
from tuner.api.common import find_operator
from tuner.api.comparing import compare
from tuner.api.database import backup_database
from tuner.api.database import check_database
from tuner.api.database import database_info
from tuner.api.database import upgrade_database
from tuner.api.evidence import list_evidence
from tuner.api.evidence import show_evidence
from tuner.api.importing import bundle_source
from tuner.api.importing import import_file
from tuner.api.machine import compile_operator
from tuner.api.machine import diagnose
from tuner.api.machine import list_devices
from tuner.api.profiling import import_profile
from tuner.api.profiling import list_profiles
from tuner.api.profiling import profile_trial
from tuner.api.reading import export_source
from tuner.api.reading import export_trial
from tuner.api.reading import history
from tuner.api.reading import list_studies
from tuner.api.reading import list_trials
from tuner.api.reading import show_trial
from tuner.api.reporting import write_report
from tuner.api.reproducing import reproduce
from tuner.api.studies import run_study
from tuner.api.studies import StudyResult

__all__ = [
    "StudyResult",
    "all_operators",
    "backup_database",
    "best",
    "bundle_source",
    "check_database",
    "compare",
    "compile_operator",
    "database_info",
    "diagnose",
    "export_source",
    "export_trial",
    "find_operator",
    "history",
    "import_file",
    "import_profile",
    "list_devices",
    "list_evidence",
    "list_profiles",
    "list_studies",
    "list_trials",
    "profile_trial",
    "reproduce",
    "run_study",
    "show_evidence",
    "show_trial",
    "upgrade_database",
    "write_report",
]
