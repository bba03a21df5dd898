"""What a trial is among the others, and its whole chain as text. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.domain.environment import UNKNOWN_PREFIX
from tuner.domain.identity import config_text
from tuner.domain.identity import Plain
from tuner.domain.stats import median
from tuner.domain.stats import tie_set
from tuner.domain.study import BestCandidate
from tuner.store.views import TrialDetail

_TRIAL_FIELDS = (
    "outcome", "stage", "message", "median_us", "low_us", "high_us", "quick_median_us",
    "bandwidth_gb_s", "warnings", "reused_from_id", "started_at", "finished_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claim:
    """Where a trial stands among the confirmed ones it can be compared with.

    Those are of its workload, environment and protocol, and the newest of each config.

    Attributes:
        standing: ``best``, ``tied with the best``, ``slower``, ``superseded`` (the same config
            was measured again later), ``rerun`` (it says something of the record that it
            repeats) or ``not confirmed``.
        best_trial_id: The fastest of them; None where none is confirmed.
        slower: Its time over the fastest's; None where it is not confirmed, or a rerun.
        compared: How many there are.
    """

    standing: str
    best_trial_id: int | None
    slower: float | None
    compared: int


def claim_of(
    detail: TrialDetail, candidates: Sequence[BestCandidate], *, is_rerun: bool = False
) -> Claim:
    """Say where a trial stands.

    Args:
        detail: The trial.
        candidates: Confirmed trials of its workload and environment, with samples.
        is_rerun: It belongs to a reproduction's rerun, and is no candidate itself.
    """
    newest: dict[tuple[str, str, str], BestCandidate] = {}
    for each in sorted(candidates, key=lambda each: (each.finished_at, each.trial_id)):
        if each.protocol.key == detail.protocol.key and each.samples_us:
            key = (each.implementation, config_text(each.config), each.source_hash)
            newest[key] = each
    compared = sorted(newest.values(), key=lambda each: (each.median_us, each.trial_id))
    own_us = detail.summary.median_us
    if is_rerun or own_us is None or not compared:
        standing = "rerun" if is_rerun else "not confirmed"
        best_trial_id = compared[0].trial_id if compared else None
        return Claim(standing, best_trial_id, None, len(compared))
    fastest = compared[0]
    tied = {compared[index].trial_id for index in tie_set([each.samples_us for each in compared])}
    own_id = detail.summary.id
    if own_id == fastest.trial_id:
        standing = "best"
    elif own_id in tied:
        standing = "tied with the best"
    elif own_id in {each.trial_id for each in compared}:
        standing = "slower"
    else:
        standing = "superseded"
    return Claim(standing, fastest.trial_id, own_us / fastest.median_us, len(compared))


def chain_text(trial: Mapping[str, Plain], *, with_source: bool) -> str:
    """Return a trial's chain for people, from what ``tuner show --format json`` has.

    Args:
        trial: As ``tuner.api.show_trial`` returns it.
        with_source: Print the kernel's text too.
    """
    sections = (
        ("claim", [*_claim_lines(trial), *trial["notes"]]),
        ("trial", _trial_lines(trial)),
        ("processes and samples", _process_lines(trial)),
        ("controls", _control_lines(trial)),
        ("validation", _validation_lines(trial)),
        ("protocol", [f"{name}: {_text(value)}" for name, value in trial["protocol"].items()]),
        ("environment", _environment_lines(trial)),
        ("build", _build_lines(trial)),
        ("source", _source_lines(trial, with_source=with_source)),
        ("reproductions", _reproduction_lines(trial)),
        ("log", str(trial["log"]).splitlines()),
    )
    lines: list[str] = []
    for title, section in sections:
        if section:
            lines += [title, *(f"  {line}" for line in section)]
    return "\n".join(lines)


def _claim_lines(trial: Mapping[str, Plain]) -> list[str]:
    claim, summary = trial["claim"], trial["summary"]
    workload = summary["workload"]
    shape = "x".join(str(size) for size in workload["shape"])
    problem = f"{workload['operator']} {shape} {workload['dtype']}"
    compared = f"of {claim['compared']} configs of {problem} confirmed in this environment"
    if claim["standing"] == "rerun":
        return [f"a rerun: makes no claim of its own ({compared})"]
    if claim["slower"] is None:
        return [f"not confirmed: makes no claim ({compared})"]
    standing, best = claim["standing"], claim["best_trial_id"]
    if standing in ("best", "superseded"):
        rest = "" if standing == "best" else ": this config was measured again later"
        return [f"{standing} {compared}{rest}"]
    return [f"{standing} {compared}: {claim['slower']:.4g} times the time of trial {best}"]


def _trial_lines(trial: Mapping[str, Plain]) -> list[str]:
    summary = trial["summary"]
    workload = summary["workload"]
    scalars = config_text(workload["scalars"])
    lines = [
        f"id: {summary['id']}, attempt {summary['attempt']}, {trial['origin']}",
        f"study: {summary['study_name']} (id {summary['study_id']})",
        f"workload: {workload['operator']} {'x'.join(map(str, workload['shape']))} "
        f"{workload['dtype']} {scalars}",
        f"implementation: {summary['implementation']} ({summary['language']})",
        f"config: {config_text(summary['config'])}",
    ]
    lines += [
        f"{name}: {_text(summary[name])}"
        for name in _TRIAL_FIELDS
        if summary[name] not in (None, "", [])
    ]
    if trial["geometry"] is not None:
        lines.append(f"launch: {_text(trial['geometry'])}")
    return lines


def _process_lines(trial: Mapping[str, Plain]) -> list[str]:
    lines = []
    for each in trial["processes"]:
        head = f"{each['stage']} {each['position']}: {each['outcome']}"
        report = each["report"]
        if report is None or not report["samples_us"]:
            lines.append(f"{head} {each['message']}".rstrip())
            continue
        samples = report["samples_us"]
        lines.append(
            f"{head}, median {median(samples):.6g} us, {len(samples)} samples "
            f"{min(samples):.6g} to {max(samples):.6g} us, "
            f"{report['launches_per_sample']} launches a sample, {report['submission']}, "
            f"{report['buffer_sets']} buffer set(s)" + _readings(report)
        )
    if lines:
        lines.append("every sample: --format json, or tuner export samples")
    return lines


def _control_lines(trial: Mapping[str, Plain]) -> list[str]:
    lines = []
    for run in trial["controls"]:
        drift = "no two measurements" if run["drift"] is None else f"drift {run['drift']:.2%}"
        lines.append(
            f"run of {run['run_started_at']}: null kernel {_text(run['null_us'])} us, copy of "
            f"{_text(run['copy_bytes'])} bytes {_text(run['copy_us'])} us, sentinel trial "
            f"{run['sentinel_id']}: {drift}{' (marked)' if run['is_marked'] else ''}"
        )
        lines += [f"failed: {each}" for each in run["failures"]]
    return lines


def _readings(report: Mapping[str, Plain]) -> str:
    known = [
        f"{name} {report['before'][name]:g} -> {report['after'][name]:g}"
        for name in report["before"]
        if report["before"][name] is not None and report["after"][name] is not None
    ]
    return "".join(f", {each}" for each in known)


def _validation_lines(trial: Mapping[str, Plain]) -> list[str]:
    checks = [
        (f"{each['stage']} {each['position']}", check)
        for each in trial["processes"]
        for check in each["validations"]
    ]
    checks += [("unfinished", check) for check in trial["validations"]]
    return [
        f"{where}, {check['phase']} timing, {check['case']} (seed {check['seed']}): "
        f"{'passed' if check['passed'] else 'FAILED'}, max abs error "
        f"{_text(check['max_abs_error'])}, max rel error {_text(check['max_rel_error'])}"
        + (f", {check['mismatches']} mismatches" if check["mismatches"] else "")
        + (f": {check['message']}" if check["message"] else "")
        for where, check in checks
    ]


def _environment_lines(trial: Mapping[str, Plain]) -> list[str]:
    environment = trial["environment"]
    lines = [f"{name}: {value}" for name, value in environment["identity"].items()]
    lines += [f"{name}: {value} (context)" for name, value in environment["context"].items()]
    unread = [each for each in environment["identity"].values() if each.startswith(UNKNOWN_PREFIX)]
    if unread:
        lines.append(f"{len(unread)} identity field(s) could not be read: never equal to another")
    return lines


def _build_lines(trial: Mapping[str, Plain]) -> list[str]:
    build = trial["build"]
    if build is None:
        return ["never built"]
    names = ("registers", "spills", "spill_bytes", "shared_bytes", "code_bytes")
    return [
        f"compiler: {build['compiler']}",
        f"options: {' '.join(build['options']) or 'none'}",
        f"binary: {build['binary_hash'] or 'none (interpreted)'}",
        f"build_s: {_text(build['build_s'])}{' (from the cache)' if build['cached'] else ''}",
        *(f"{name}: {build[name]}" for name in names if build[name] is not None),
    ]


def _source_lines(trial: Mapping[str, Plain], *, with_source: bool) -> list[str]:
    source = trial["source"]
    lines = [
        f"hash: {source['source_hash']}",
        f"entry: {source['entry']} in {source['main']} ({source['language']})",
        f"files: {', '.join(source['files'])}{'' if with_source else ' (--source prints them)'}",
    ]
    if with_source:
        for name, text in source["files"].items():
            lines += [f"{name}:", *(f"  | {line}" for line in text.splitlines())]
    return lines


def _reproduction_lines(trial: Mapping[str, Plain]) -> list[str]:
    lines = []
    for each in trial["reproductions"]:
        found = each["reproduction"]
        ratio = "" if found["ratio"] is None else f", {found['ratio']:.4g} times the time"
        reruns = (found["rerun_trial_id"], each["again_trial_id"])
        where = "".join(f", trial {rerun}" for rerun in reruns if rerun is not None)
        verdict = str(found["verdict"]).replace("_", " ")
        lines.append(f"{each['created_at']}: {verdict}{ratio}{where}")
    return lines


def _text(value: Plain) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return "; ".join(_text(each) for each in value)
    if isinstance(value, dict):
        return " ".join(f"{name}={json.dumps(each)}" for name, each in value.items())
    return str(value)
