"""The verbs of the program as functions: what the command line and the service call.

Composition root: the only place where studies, store, workers and reports meet. Each name is loaded
at its first use, and heavy packages inside the functions that need them: a command waits for what
it does and for nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.api.answer import best as best
    from tuner.api.answers import BestAnswers as BestAnswers
    from tuner.api.answers_ahead import AnswersAhead as AnswersAhead
    from tuner.api.changing import change_job as change_job
    from tuner.api.changing import change_study as change_study
    from tuner.api.changing import JobAction as JobAction
    from tuner.api.common import all_operators as all_operators
    from tuner.api.comparing import compare as compare
    from tuner.api.dashboard import optuna_copies as optuna_copies
    from tuner.api.database import backup_database as backup_database
    from tuner.api.database import check_database as check_database
    from tuner.api.database import copy_database as copy_database
    from tuner.api.database import database_info as database_info
    from tuner.api.database import upgrade_database as upgrade_database
    from tuner.api.evidence import list_evidence as list_evidence
    from tuner.api.evidence import show_evidence as show_evidence
    from tuner.api.figures import study_figures as study_figures
    from tuner.api.importing import bundle_source as bundle_source
    from tuner.api.importing import import_file as import_file
    from tuner.api.job_page import job_view as job_view
    from tuner.api.job_running import run_job as run_job
    from tuner.api.jobs import cancel_job as cancel_job
    from tuner.api.jobs import launch_reproduce as launch_reproduce
    from tuner.api.jobs import launch_study as launch_study
    from tuner.api.jobs import list_job_devices as list_job_devices
    from tuner.api.jobs import newest_job as newest_job
    from tuner.api.jobs import pause_job as pause_job
    from tuner.api.jobs import resume_job as resume_job
    from tuner.api.jobs import show_job as show_job
    from tuner.api.kernel_tuner import export_for_kernel_tuner as export_for_kernel_tuner
    from tuner.api.known_devices import DeviceMemory as DeviceMemory
    from tuner.api.listing import list_operators as list_operators
    from tuner.api.lookup import Launch as Launch
    from tuner.api.lookup import look_up as look_up
    from tuner.api.machine import compile_operator as compile_operator
    from tuner.api.machine import diagnose as diagnose
    from tuner.api.machine import list_devices as list_devices
    from tuner.api.monitoring import check_readable as check_readable
    from tuner.api.monitoring import database_tallies as database_tallies
    from tuner.api.monitoring import DatabaseTallies as DatabaseTallies
    from tuner.api.monitoring import prepare_database as prepare_database
    from tuner.api.paging import newest_studies as newest_studies
    from tuner.api.paging import Page as Page
    from tuner.api.paging import page_environments as page_environments
    from tuner.api.paging import page_jobs as page_jobs
    from tuner.api.paging import page_reproductions as page_reproductions
    from tuner.api.paging import page_studies as page_studies
    from tuner.api.paging import page_trials as page_trials
    from tuner.api.paging import show_study as show_study
    from tuner.api.paging import trial_source as trial_source
    from tuner.api.profiling import import_profile as import_profile
    from tuner.api.profiling import list_profiles as list_profiles
    from tuner.api.profiling import profile_trial as profile_trial
    from tuner.api.progress import job_progress as job_progress
    from tuner.api.progress import study_progress as study_progress
    from tuner.api.question import Asked as Asked
    from tuner.api.question import asked as asked
    from tuner.api.queue_view import queue_now as queue_now
    from tuner.api.reading import export_source as export_source
    from tuner.api.reading import export_trial as export_trial
    from tuner.api.reading import history as history
    from tuner.api.reading import show_trial as show_trial
    from tuner.api.registered import registered_studies as registered_studies
    from tuner.api.reporting import report_text as report_text
    from tuner.api.reporting import write_report as write_report
    from tuner.api.reproducing import reproduce as reproduce
    from tuner.api.resuming import can_resume as can_resume
    from tuner.api.resuming import resume_study as resume_study
    from tuner.api.simulating import simulate as simulate
    from tuner.api.studies import run_study as run_study
    from tuner.api.study_result import StudyResult as StudyResult
    from tuner.api.viewing import newest_winners as newest_winners
    from tuner.api.viewing import record_reruns as record_reruns
    from tuner.api.viewing import study_view as study_view
    from tuner.api.work_queue import open_work_queue as open_work_queue
    from tuner.report.comparison import COLUMNS as COMPARE_COLUMNS
    from tuner.report.csv_text import csv_chunks as csv_chunks
    from tuner.report.shown import number as figure_text

__all__ = ["COMPARE_COLUMNS", "figure_text"]  # these two are called otherwise where they are
_NAMES = {
    "tuner.api.answer": ("best",),
    "tuner.api.answers": ("BestAnswers",),
    "tuner.api.answers_ahead": ("AnswersAhead",),
    "tuner.api.changing": ("change_job", "change_study", "JobAction"),
    "tuner.api.common": ("all_operators",),
    "tuner.api.comparing": ("compare",),
    "tuner.api.dashboard": ("optuna_copies",),
    "tuner.api.database": (
        "backup_database",
        "check_database",
        "copy_database",
        "database_info",
        "upgrade_database",
    ),
    "tuner.api.evidence": ("list_evidence", "show_evidence"),
    "tuner.api.figures": ("study_figures",),
    "tuner.api.importing": ("bundle_source", "import_file"),
    "tuner.api.job_running": ("run_job",),
    "tuner.api.job_page": ("job_view",),
    "tuner.api.jobs": (
        "cancel_job",
        "launch_reproduce",
        "launch_study",
        "list_job_devices",
        "newest_job",
        "pause_job",
        "resume_job",
        "show_job",
    ),
    "tuner.api.kernel_tuner": ("export_for_kernel_tuner",),
    "tuner.api.known_devices": ("DeviceMemory",),
    "tuner.api.listing": ("list_operators",),
    "tuner.api.lookup": ("Launch", "look_up"),
    "tuner.api.machine": ("compile_operator", "diagnose", "list_devices"),
    "tuner.api.monitoring": (
        "check_readable",
        "database_tallies",
        "DatabaseTallies",
        "prepare_database",
    ),
    "tuner.api.paging": (
        "Page",
        "newest_studies",
        "page_environments",
        "page_jobs",
        "page_reproductions",
        "page_studies",
        "page_trials",
        "show_study",
        "trial_source",
    ),
    "tuner.api.profiling": ("import_profile", "list_profiles", "profile_trial"),
    "tuner.api.progress": ("job_progress", "study_progress"),
    "tuner.api.question": ("Asked", "asked"),
    "tuner.api.queue_view": ("queue_now",),
    "tuner.api.reading": ("export_source", "export_trial", "history", "show_trial"),
    "tuner.api.registered": ("registered_studies",),
    "tuner.api.reporting": ("report_text", "write_report"),
    "tuner.api.reproducing": ("reproduce",),
    "tuner.api.resuming": ("can_resume", "resume_study"),
    "tuner.api.simulating": ("simulate",),
    "tuner.api.studies": ("run_study",),
    "tuner.api.study_result": ("StudyResult",),
    "tuner.api.viewing": ("newest_winners", "record_reruns", "study_view"),
    "tuner.api.work_queue": ("open_work_queue",),
    "tuner.report.csv_text": ("csv_chunks",),
}
_HOMES = {
    **{name: (module, name) for module, names in _NAMES.items() for name in names},
    "COMPARE_COLUMNS": ("tuner.report.comparison", "COLUMNS"),
    "figure_text": ("tuner.report.shown", "number"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, own_name = _HOMES[name]
    return getattr(import_module(module), own_name)


def load_all() -> None:
    """Load everything now: for a service, whose first requests would wait for it."""
    for module, _ in _HOMES.values():
        import_module(module)
