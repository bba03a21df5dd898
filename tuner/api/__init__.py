"""The verbs of the program as functions: what the command line and the service call.

Composition root: the only place where studies, store, workers and reports meet. Heavy packages
are imported inside the functions that need them.
"""

from __future__ import annotations

from tuner.api.answer import best
from tuner.api.answers import BestAnswers
from tuner.api.answers_ahead import AnswersAhead
from tuner.api.asked import Asked
from tuner.api.asked import asked
from tuner.api.changing import change_job
from tuner.api.changing import change_study
from tuner.api.changing import JobAction
from tuner.api.common import all_operators
from tuner.api.comparing import compare
from tuner.api.dashboard import optuna_copies
from tuner.api.database import backup_database
from tuner.api.database import check_database
from tuner.api.database import copy_database
from tuner.api.database import database_info
from tuner.api.database import upgrade_database
from tuner.api.evidence import list_evidence
from tuner.api.evidence import show_evidence
from tuner.api.figures import study_figures
from tuner.api.importing import bundle_source
from tuner.api.importing import import_file
from tuner.api.job_running import run_job
from tuner.api.jobs import cancel_job
from tuner.api.jobs import launch_reproduce
from tuner.api.jobs import launch_study
from tuner.api.jobs import list_job_devices
from tuner.api.jobs import newest_job
from tuner.api.jobs import pause_job
from tuner.api.jobs import resume_job
from tuner.api.jobs import resume_study
from tuner.api.jobs import show_job
from tuner.api.kernel_tuner import export_for_kernel_tuner
from tuner.api.known_devices import DeviceMemory
from tuner.api.listing import list_operators
from tuner.api.lookup import Launch
from tuner.api.lookup import look_up
from tuner.api.machine import compile_operator
from tuner.api.machine import diagnose
from tuner.api.machine import list_devices
from tuner.api.monitoring import check_readable
from tuner.api.monitoring import database_tallies
from tuner.api.monitoring import DatabaseTallies
from tuner.api.monitoring import prepare_database
from tuner.api.paging import Page
from tuner.api.paging import page_environments
from tuner.api.paging import page_jobs
from tuner.api.paging import page_reproductions
from tuner.api.paging import page_studies
from tuner.api.paging import page_trials
from tuner.api.paging import show_study
from tuner.api.paging import trial_source
from tuner.api.profiling import import_profile
from tuner.api.profiling import list_profiles
from tuner.api.profiling import profile_trial
from tuner.api.progress import job_progress
from tuner.api.progress import study_progress
from tuner.api.queue_now import queue_now
from tuner.api.reading import export_source
from tuner.api.reading import export_trial
from tuner.api.reading import history
from tuner.api.reading import show_trial
from tuner.api.registered import registered_studies
from tuner.api.reporting import report_text
from tuner.api.reporting import write_report
from tuner.api.reproducing import reproduce
from tuner.api.simulating import simulate
from tuner.api.studies import run_study
from tuner.api.studies import StudyResult
from tuner.api.viewing import newest_winners
from tuner.api.viewing import record_reruns
from tuner.api.viewing import study_view
from tuner.api.work_queue import open_work_queue
from tuner.report.comparison import COLUMNS as COMPARE_COLUMNS
from tuner.report.csv_text import csv_chunks
from tuner.report.shown import number as figure_text

__all__ = [
    "COMPARE_COLUMNS",
    "AnswersAhead",
    "Asked",
    "BestAnswers",
    "DatabaseTallies",
    "DeviceMemory",
    "JobAction",
    "Launch",
    "Page",
    "StudyResult",
    "all_operators",
    "asked",
    "backup_database",
    "best",
    "bundle_source",
    "cancel_job",
    "change_job",
    "change_study",
    "check_database",
    "check_readable",
    "compare",
    "compile_operator",
    "copy_database",
    "csv_chunks",
    "database_info",
    "database_tallies",
    "diagnose",
    "export_for_kernel_tuner",
    "export_source",
    "export_trial",
    "figure_text",
    "history",
    "import_file",
    "import_profile",
    "job_progress",
    "launch_reproduce",
    "launch_study",
    "list_devices",
    "list_evidence",
    "list_job_devices",
    "list_operators",
    "list_profiles",
    "look_up",
    "newest_job",
    "newest_winners",
    "open_work_queue",
    "optuna_copies",
    "page_environments",
    "page_jobs",
    "page_reproductions",
    "page_studies",
    "page_trials",
    "pause_job",
    "prepare_database",
    "profile_trial",
    "queue_now",
    "record_reruns",
    "registered_studies",
    "report_text",
    "reproduce",
    "resume_job",
    "resume_study",
    "run_job",
    "run_study",
    "show_evidence",
    "show_job",
    "show_study",
    "show_trial",
    "simulate",
    "study_figures",
    "study_progress",
    "study_view",
    "trial_source",
    "upgrade_database",
    "write_report",
]
