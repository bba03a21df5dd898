"""Builds kernels for an architecture, without a device of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from tuner.bench.languages.base import code_report
from tuner.bench.languages.base import Language
from tuner.bench.languages.base import report_of_steps
from tuner.domain.job import CompileJob
from tuner.domain.records import CompileReport
from tuner.errors import TrialError
from tuner.errors import TunerError


def compile_kernel(languages: Mapping[str, Language], job: CompileJob) -> CompileReport:
    """Build for an architecture without running; a refusal is an answer, not an error."""
    language, reports = languages[job.kernel.language], []
    try:
        for step in job.kernel.launches:
            started = time.perf_counter()
            code = language.compile_for(step, job.architecture, job.wave_size)
            report = code_report(code, step.geometry.shared_bytes)
            reports.append(replace(report, build_s=time.perf_counter() - started))
    except (TrialError, TunerError) as error:
        return CompileReport(None, error.message, getattr(error, "log", ""))
    return CompileReport(report_of_steps(reports))
