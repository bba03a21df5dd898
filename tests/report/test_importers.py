"""Files of others: each format is recognised and read as it was written, or names its bad line."""

from __future__ import annotations

import pytest
from import_samples import CACHE
from import_samples import FILES
from import_samples import LOG
from import_samples import PROFILE
from import_samples import RECORDED
from import_samples import SAMPLES
from import_samples import SUMMARY
from import_samples import T4

from tuner.domain.evidence import derived_claims
from tuner.domain.evidence import EvidenceRecord
from tuner.domain.evidence import exact_us
from tuner.domain.evidence import Statistic
from tuner.domain.evidence import Timer
from tuner.domain.outcome import Outcome
from tuner.errors import UsageError
from tuner.report.importers import READERS
from tuner.report.importers import recognise
from tuner.study.recorded import parse_recorded
from tuner.study.spec import parse_study


def read(kind: str, text: str) -> tuple[EvidenceRecord, ...]:
    found = READERS[kind](text.encode())
    assert found.problems == ()
    return found.records


def problems(kind: str, text: str) -> list[tuple[int, str]]:
    return [(each.line, each.what) for each in READERS[kind](text.encode()).problems]


@pytest.mark.parametrize("kind", READERS)
def test_a_format_is_recognised_from_its_content(kind: str) -> None:
    text = FILES[kind]
    assert recognise(text.encode()) == kind
    assert recognise(b"\xef\xbb\xbf" + text.encode()) == kind
    assert recognise(text.replace("\n", "\r\n").encode()) == kind


@pytest.mark.parametrize("text", ["", "{}", "[1]", "a,b\n1,2\n", "schema = 1\n", "RESULTS x=1\n"])
def test_other_files_are_not_taken_for_results(text: str) -> None:
    assert recognise(text.encode()) is None


# --- times


@pytest.mark.parametrize(
    ("text", "unit", "time_us"),
    [
        ("1.504860", "ms", 1504.86),  # 1.504860 * 1000 is 1504.8600000000001
        ("0.0590205", "ms", 59.0205),
        ("3e-2", "ms", 30.0),
        ("33", "ns", 0.033),
        ("0.000033", "s", 33.0),
    ],
)
def test_times_are_converted_exactly(text: str, unit: str, time_us: float) -> None:
    assert exact_us(text, unit) == time_us  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "", "1,5", "0x1p3", "1e400", "١", "1_0"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        exact_us(text, "ms")


# --- result lines


def test_result_lines_give_records_with_the_environment_before_them() -> None:
    first, second, failed = read("log", LOG)
    assert (first.line, first.implementation, first.shape) == (4, "hip-block", "1024x4096")
    assert first.environment == {
        "name": "Radeon RX 9070 XT",
        "architecture": "gfx1201",
        "rocm": "7.13",
    }
    assert first.times.median == "0.058440"
    assert first.times.median_us == 58.44
    assert first.times.timer is Timer.EVENT
    assert first.config == {"block": 256}
    assert first.protocol == {"warmup": 10, "samples": 50, "input_seed": 20260719}
    assert first.max_abs_error == 1.2e-6
    assert first.extra == {"min_ms": "0.058000", "mean_ms": "0.058700"}
    # shlex words, the first "=", NA, unknown keys
    assert second.environment["triton"] == "3.8.0"
    assert second.extra["note"] == "two words=and more"
    assert second.config == {"block_size": 4096, "num_warps": 8}
    assert second.scalars == {"epsilon": 1e-5}
    assert second.max_rel_error is None
    assert failed.outcome is Outcome.WRONG_RESULT
    assert failed.message == "correct=FAIL precheck=FAIL"
    assert failed.times.median_us is None
    assert failed.max_abs_error is None


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"postcheck=OK": "postcheck=FAIL", "correct=OK": "correct=FAIL"}, "unstable_result"),
        (
            {"max_abs_error=1.2e-06": "max_abs_error=nan", "precheck=OK": "precheck=FAIL"},
            "non_finite",
        ),
        ({"timed=1": "timed=0"}, "skipped"),
    ],
)
def test_how_a_line_ended_follows_from_its_checks(change: dict[str, str], outcome: str) -> None:
    line = LOG.splitlines()[3]
    for old, new in change.items():
        line = line.replace(old, new)
    (record,) = read("log", line)
    assert record.outcome == outcome
    assert record.times.median_us is None
    assert record.extra["median_ms"] == "0.058440"  # what it timed is kept, as a text only


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("median_ms=0.058440", "median_ms=NA", "median_ms is missing"),
        ("median_ms=0.058440", "median_ms=-1", "is not a time"),
        ("median_ms=0.058440", "median_ms=0", "can't be the time"),
        ("min_ms=0.058000", "min_ms=1", "above median_ms"),
        ("rows=1024", "rows=1023", "contradicts"),
        ("shape=1024x4096", "shape=1024xy", "not understood"),
        ("shape=1024x4096", "", "shape is missing"),
        ("timed=1", "timed=yes", "not 0 or 1"),
        ("timed=1", 'timed="1', "can't be split"),
        ("timed=1", "timed", "not name=value"),
        ("timed=1", "warmup=10", "warmup is given twice"),
        ("seed=20260719", "seed=99999999999999999999", "64 bits"),
        ("max_abs_error=1.2e-06", "max_abs_error=nan", "not a finite number"),
        ("runtime=hip", "runtime=h\x00p", "not plain text"),
    ],
)
def test_a_bad_result_line_says_what_is_wrong(old: str, new: str, says: str) -> None:
    line = LOG.splitlines()[3]
    assert old in line
    ((number, what),) = problems("log", "first line\n" + line.replace(old, new))
    assert number == 2
    assert says in what


# --- tables


def test_a_summary_keeps_median_and_range_as_written() -> None:
    first, second = read("summary-csv", SUMMARY)
    assert (first.times.median, first.times.low, first.times.high) == (
        *("0.058440", "0.058041", "0.0590205"),
    )
    assert first.times.range_us == (58.041, 59.0205)
    assert first.times.statistic is Statistic.MEDIAN_OF_PROCESS_MEDIANS
    assert first.protocol["processes"] == 3
    assert first.config == {"block": 256}
    assert second.config == {"num_warps": 8}
    assert [first.line, second.line] == [2, 3]


def test_samples_of_one_config_and_process_are_one_record() -> None:
    first, second = read("samples-csv", SAMPLES)
    assert (first.line, second.line) == (2, 5)
    assert first.times.samples == ("0.0590205", "0.058440", "0.058041")
    assert first.times.samples_us == (59.0205, 58.44, 58.041)
    assert first.times.median is None  # the file states no figure
    assert first.times.median_us == 58.44
    assert first.protocol == {"process": 0}


def test_a_record_with_a_bad_sample_is_left_out_whole() -> None:
    text = SAMPLES.replace("0,1,0.058440", "0,1,fast")
    found = READERS["samples-csv"](text.encode())
    assert [each.line for each in found.problems] == [3, 4]
    assert [each.line for each in found.records] == [5]


def test_profiles_are_marked_and_what_they_lack_is_missing() -> None:
    target, copy = read("profile-csv", PROFILE)
    assert target.times.timer is Timer.KERNEL_TRACE
    assert target.times.median_us == 9.14
    assert target.extra["kernel"] == "rows_kernel"
    assert target.extra["grid_size"] == [4096, 1, 1]
    # 0 is what the profiler says of the static part; of the copy it says nothing
    assert target.extra["resources"]["static_lds_bytes"] == 0
    assert "resources" not in copy.extra
    assert copy.outcome is Outcome.SKIPPED


@pytest.mark.parametrize(
    ("kind", "text", "line", "says"),
    [
        ("summary-csv", SUMMARY + "a,b\n", 4, "2 cells where the header has 20"),
        ("summary-csv", SUMMARY.replace("config_id", "seed", 1), 1, "column 'seed' is there twice"),
        ("summary-csv", SUMMARY.replace("0.058041", "0.0585"), 2, "outside of its range"),
        ("summary-csv", SUMMARY.replace("t1,", '"t1,'), 3, "not valid CSV"),
        ("samples-csv", SAMPLES.replace("0,2,", "0,1,"), 4, "sample 1 comes after sample 1"),
        ("profile-csv", PROFILE.replace(",24,16,", ",many,16,"), 2, "VGPR_Count is 'many'"),
    ],
)
def test_a_bad_row_names_its_line(kind: str, text: str, line: int, says: str) -> None:
    ((number, what), *_) = problems(kind, text)
    assert number == line
    assert says in what


# --- Kernel Tuner


def test_t4_results_are_read_in_the_unit_they_state() -> None:
    good, failed = read("kernel-tuner-t4", T4)
    assert good.config == {"block_size_x": 128, "tile": 2}
    assert good.times.samples == ("0.0360", "0.0333", "0.0340")
    assert good.times.median_us == 34.0
    assert good.measured_on == "2026-07-19"
    assert good.extra["times"] == {"compilation_time": 512.5, "validation": 0}
    assert failed.outcome is Outcome.COMPILE_ERROR
    (mean,) = READERS["kernel-tuner-t4"](T4.replace('"runtimes"', '"runs"').encode()).records[:1]
    assert mean.times.median == "0.034433"
    assert mean.times.statistic is Statistic.MEAN


@pytest.mark.parametrize(
    "left_open",
    [
        CACHE,
        CACHE.removesuffix("}\n}") + ",",  # as it is while Kernel Tuner runs
        CACHE.removesuffix("}\n}"),
        CACHE.removesuffix("\n}"),
    ],
)
def test_a_cache_file_is_read_also_while_it_is_open(left_open: str) -> None:
    sampled, mean, invalid = read("kernel-tuner-cache", left_open)
    assert sampled.times.median_us == 40.0
    assert mean.times.median_us == 30.2
    assert mean.environment == {"name": "Radeon RX 9070 XT"}
    assert mean.extra["problem_size"] == [1024, 1]
    assert invalid.outcome is Outcome.SKIPPED
    assert invalid.message == "InvalidConfig"


def test_an_entry_that_a_kill_cut_off_is_a_problem_of_its_own() -> None:
    found = READERS["kernel-tuner-cache"](CACHE[: CACHE.index('"InvalidConfig"')].encode())
    assert [each.line for each in found.records] == [1, 2]
    assert [(each.line, each.what) for each in found.problems] == [(3, "the last entry is cut off")]


@pytest.mark.parametrize(
    ("kind", "old", "new", "says"),
    [
        ("kernel-tuner-t4", '"compile"', '"maybe"', "invalidity is 'maybe'"),
        ("kernel-tuner-t4", '"unit": "ms"},\n', '"unit": "furlong"},\n', "with a unit of time"),
        ("kernel-tuner-t4", "0.0333", "NaN", "not a number"),
        ("kernel-tuner-t4", "0.0333", "-0.0333", "is not a time"),
        ("kernel-tuner-t4", '"tile": 2}', '"tile": [2]}', "can't be a parameter's value"),
        ("kernel-tuner-t4", "512.5", "[" * 40 + "]" * 40, "nested deeper"),
        ("kernel-tuner-t4", "512.5", "[" * 40_000 + "]" * 40_000, "nested"),
        ("kernel-tuner-t4", '"results": [', '"results": [,', "not valid JSON"),
        ("kernel-tuner-cache", "0.0302", '"Broken"', "the result is 'Broken'"),
        ("kernel-tuner-cache", '"block_size_x": 128, ', "", "has no value"),
    ],
)
def test_a_bad_entry_says_what_is_wrong(kind: str, old: str, new: str, says: str) -> None:
    assert old in FILES[kind]
    ((_, what), *_) = problems(kind, FILES[kind].replace(old, new, 1))
    assert says in what


# --- evidence files


def test_an_evidence_file_states_what_its_rows_share_once() -> None:
    name, (serial, block, broken) = parse_recorded(RECORDED, "x.toml")
    assert name == "someones-2026"
    assert serial.line == 12
    assert {each.operator for each in (serial, block, broken)} == {"norm"}
    assert serial.times.median_us == 1504.86
    assert block.times.samples_us == (58.041, 58.44, 59.0205)
    assert block.rerun == ("hip-block", {"BLOCK": 256})
    assert broken.outcome is Outcome.WRONG_RESULT
    (claim,) = derived_claims((serial, block, broken))
    assert claim.ratio == pytest.approx(1504.86 / 58.44)


@pytest.mark.parametrize(
    ("old", "new", "place", "says"),
    [
        ('"1504.860"', "1504.860", "x.toml:14: key 'recorded[0].median'", "a string"),
        ('"1504.860"', '"fast"', "x.toml:14: key 'recorded[0].median'", "not a time"),
        ('"1501.600"', '"1600"', "x.toml:12: key 'recorded[0]'", "do not go together"),
        ("faster_than", "faster", "x.toml:23: key 'recorded[1].faster'", "unknown key"),
        ('["serial"]', '["nobody"]', "x.toml:23: key 'recorded[1].faster_than'", "of 0 rows"),
        ("2026-07-19", "2026-02-30", "x.toml:4: key 'measured_on'", "is no day"),
        ('"off by one"', '""', "x.toml:25: key 'recorded[2]'", "needs a message"),
        ("schema = 1", "schema = 2", "x.toml:1: key 'schema'", "must be 1"),
    ],
)
def test_a_bad_evidence_file_names_line_and_key(old: str, new: str, place: str, says: str) -> None:
    assert old in RECORDED
    with pytest.raises(UsageError, match=says) as caught:
        parse_recorded(RECORDED.replace(old, new, 1), "x.toml")
    assert caught.value.message.startswith(place)


def test_an_evidence_file_is_no_study() -> None:
    with pytest.raises(UsageError, match=r"x\.toml:12: .* records evidence, it is not a study"):
        parse_study(RECORDED, "x.toml")
