"""Study files: what is accepted means what it says, and everything else is one line with a line."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from tuner.domain.identity import canonical_json
from tuner.domain.job import Fill
from tuner.domain.job import InputCase
from tuner.domain.job import LaunchGeometry
from tuner.domain.job import Tolerance
from tuner.domain.protocol import Protocol
from tuner.domain.workload import shape_text
from tuner.errors import UsageError
from tuner.operator import Array
from tuner.operator import Implementation
from tuner.operator import load_operator
from tuner.operator import Operator
from tuner.study.spec import check_against
from tuner.study.spec import load_study
from tuner.study.spec import MAX_FILE_BYTES
from tuner.study.spec import parse_study
from tuner.study.spec import study_schema
from tuner.study.spec_errors import line_of

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ROOT / "studies"

HEAD = 'schema = 1\nname = "s"\noperator = "fake"\nshapes = ["4x8"]\n'
FULL = """\
schema = 1
name = "quick-1"
description = "Größe ✓"
operator = "fake"
device = "cuda:1"
shapes = ["33x257", "64x1024"]
dtype = "float32"
scalars = { epsilon = 1e-5 }

[space.hip-block]
BLOCK = [64, 128]

[space.triton-row]

[search]
sampler = "tpe"
seed = 3
exhaustive_limit = 10
trials = 20
finalists = 2

[protocol]
warmup = 1
samples = 5
processes = 2
launches_per_sample = 4
target_sample_us = 100
cache = "cold"
submission = "stream"
input_case = "uniform"
input_seed = 9

[quick]
warmup = 0
samples = 3

[limits]
build_timeout_s = 5
run_timeout_s = 6.5
budget_trials = 100
budget_s = 60
"""


def fake_operator() -> Operator:
    block = Implementation(
        name="hip-block",
        language="hip",
        source="fake.hip",
        entry="fake",
        arguments=("x", "y", "rows"),
        parameters=lambda _dims: {"BLOCK": (64, 128, 256), "FAST": (True, False), "SCALE": (0.5,)},
        default=lambda _dims, _facts: {"BLOCK": 64, "FAST": True, "SCALE": 0.5},
        geometry=lambda _config, dims: LaunchGeometry((dims["rows"], 1, 1), 64),
    )
    return Operator(
        name="fake",
        dims=("rows", "cols"),
        arrays=(Array("x", ("rows", "cols")), Array("y", ("rows", "cols"), role="output")),
        tolerances={"float32": Tolerance(1e-5, 1e-5)},
        cases=(InputCase("normal", {"x": Fill("normal")}),),
        reference="fake",
        bytes_moved=lambda dims, item: dims["rows"] * dims["cols"] * item,
        operations=lambda dims: dims["rows"] * dims["cols"],
        implementations=(block,),
        scalars={"epsilon": 1e-5},
    )


def refusal(text: str) -> UsageError:
    """Parse a text that must be refused, and check the form every refusal has."""
    with pytest.raises(UsageError) as caught:
        parse_study(text, "s.toml")
    error = caught.value
    assert error.exit_code == 2
    assert error.message.isprintable()
    assert len(error.message) < 500
    assert "\n" not in error.hint
    assert re.match(r"s\.toml(:\d+)?: ", error.message), error.message
    return error


# --- what is accepted


def test_every_key_reaches_the_study() -> None:
    spec = parse_study(FULL, "s.toml")
    assert (spec.name, spec.description, spec.operator) == ("quick-1", "Größe ✓", "fake")
    assert (spec.device, spec.dtype, spec.shapes) == ("cuda:1", "float32", ((33, 257), (64, 1024)))
    assert dict(spec.scalars) == {"epsilon": 1e-5}
    assert spec.space == {"hip-block": {"BLOCK": (64, 128)}, "triton-row": {}}
    assert (spec.search.sampler, spec.search.seed, spec.search.exhaustive_limit) == ("tpe", 3, 10)
    assert (spec.search.trials, spec.search.finalists) == (20, 2)
    assert spec.protocol == Protocol(1, 5, 2, 4, 100.0, "cold", "stream", "uniform", 9)
    assert (spec.quick.warmup, spec.quick.samples) == (0, 3)
    assert (spec.limits.build_timeout_s, spec.limits.run_timeout_s) == (5.0, 6.5)
    assert (spec.budget.trials, spec.budget.seconds) == (100, 60.0)


def test_what_is_left_out_takes_the_documented_defaults() -> None:
    spec = parse_study(HEAD, "s.toml")
    assert (spec.device, spec.dtype, spec.space) == ("auto", "float32", None)
    assert spec.protocol == Protocol()
    assert spec.protocol.launches_per_sample is None
    assert (spec.budget.trials, spec.budget.seconds) == (None, None)


def test_files_of_equal_meaning_give_equal_plain_values() -> None:
    spelled = (
        "# a comment\r\nshapes = [\r\n '4X8', # one\r\n]\r\noperator = 'fake'\r\nname = 's'\r\n"
        "schema = 1\r\nquick.samples = 7\r\nlimits.build_timeout_s = 60\r\n"
        "[protocol]\r\nlaunches_per_sample = 'auto'\r\nwarmup = 1_0\r\n"
    )
    plain = parse_study(HEAD, "a.toml").as_plain()
    assert canonical_json(parse_study(spelled, "b.toml").as_plain()) == canonical_json(plain)
    other = parse_study(HEAD + "[quick]\nsamples = 8\n", "c.toml").as_plain()
    assert canonical_json(other) != canonical_json(plain)


def test_a_larger_budget_goes_on_with_the_same_study() -> None:
    bounded = parse_study(HEAD + "[limits]\nbudget_s = 5.0\n", "s.toml")
    assert bounded.as_plain() == parse_study(HEAD, "s.toml").as_plain()


def test_values_keep_their_types_and_order() -> None:
    spec = parse_study(HEAD + '[space.a]\nP = [2, 1, 1.0, true, "1", -0.0]\n', "s.toml")
    assert spec.space is not None
    values = spec.space["a"]["P"]
    assert [type(each) for each in values] == [int, int, float, bool, str, float]
    assert json.dumps(spec.as_plain()["space"]["a"]["P"]) == '[2, 1, 1.0, true, "1", -0.0]'


# Files of recorded evidence are beside them; they are no studies.
QUESTIONS = [
    path for path in sorted(STUDIES.glob("*.toml")) if "[[recorded]]" not in path.read_text("utf-8")
]


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_bundled_studies_fit_their_operators_and_the_schema(path: Path) -> None:
    import tomllib

    spec = load_study(path)
    assert spec.name == path.stem
    check_against(spec, load_operator(ROOT / "kernels" / spec.operator))
    jsonschema.validate(tomllib.loads(path.read_text()), study_schema())


def test_the_issue_shapes_are_in_the_bundled_studies() -> None:
    sweep = {shape_text(shape) for shape in load_study(STUDIES / "rmsnorm.toml").shapes}
    columns = {2**22 // cols for cols in (2**k for k in range(6, 17))}
    assert {f"{rows}x{2**22 // rows}" for rows in columns} <= sweep
    assert {"1x1", "3x13", "33x257", "1x4096", "1024x4096"} <= sweep
    assert (33, 257) in load_study(STUDIES / "quickstart.toml").shapes


# --- the published schema


def test_the_published_schema_is_the_one_of_the_code() -> None:
    published = (STUDIES / "study.schema.json").read_text()
    current = json.dumps(study_schema(), indent=2, ensure_ascii=False) + "\n"
    assert published == current, "write json.dumps(study_schema(), indent=2, ...) to the file"


def test_the_documentation_names_every_key_of_the_schema() -> None:
    text = (ROOT / "docs" / "study-files.md").read_text()
    tables = [study_schema(), *study_schema()["$defs"].values()]
    for key in itertools.chain.from_iterable(table["properties"] for table in tables):
        assert f"`{key}`" in text, key


SIMPLE_FAULTS = [
    "colour = 1\n" + HEAD,
    HEAD.replace("schema = 1", "schema = 2"),
    HEAD.replace('"s"', '"S"'),
    HEAD.replace('["4x8"]', "[]"),
    HEAD.replace('"4x8"', '"4 by 8"'),
    HEAD + "[protocol]\nsamples = 0\n",
    HEAD + '[protocol]\nlaunches_per_sample = "many"\n',
    HEAD + '[search]\nsampler = "best"\n',
    HEAD + "[space.a]\nP = []\n",
    HEAD + "[space.a]\nP = [1, 1]\n",
    HEAD + "[space.a]\nP = [[1]]\n",
]


@pytest.mark.parametrize("text", SIMPLE_FAULTS)
def test_schema_and_parser_refuse_the_same_faults(text: str) -> None:
    import tomllib

    refusal(text)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), study_schema())


# --- faults, with file, line, key and remedy


@pytest.mark.parametrize(
    ("text", "line", "key", "what", "hint"),
    [
        (HEAD + "flavour = 5\n", 5, "flavour", "unknown key", "known: schema, name"),
        (HEAD + "[protocol]\n\nsampels = 5\n", 7, "protocol.sampels", "unknown key", "'samples'"),
        (HEAD + "protocol.samples = '5'\n", 5, "protocol.samples", "whole number", "quotes"),
        (HEAD + "[quick]\nsamples = 256.0\n", 6, "quick.samples", "whole number, not 256.0", ""),
        (HEAD + "[quick]\nsamples = true\n", 6, "quick.samples", "whole number, not true", ""),
        (HEAD + "[quick]\nsamples = -1\n", 6, "quick.samples", "greater than or equal to 1", ""),
        (HEAD + "[limits]\nbudget_s = nan\n", 6, "limits.budget_s", "finite", "nan and inf"),
        (HEAD + "[limits]\nrun_timeout_s = inf\n", 6, "limits.run_timeout_s", "not Infinity", ""),
        (HEAD + "[limits]\nbuild_timeout_s = 0\n", 6, "limits.build_timeout_s", "than 0", ""),
        (HEAD + "quick = 3\n", 5, "quick", "must be a table", "[table]"),
        (HEAD + "[search]\nsampler = 'tep'\n", 6, "search.sampler", "'tpe'", "choose"),
        (HEAD + "[search]\nseed = 4294967296\n", 6, "search.seed", "4294967295", ""),
        (HEAD + "device = 'gpu'\n", 5, "device", '"gpu" is not allowed', "use auto, cpu"),
        (HEAD + "scalars = { epsilon = '1' }\n", 5, "scalars.epsilon", "must be a number", ""),
        (HEAD + "[scalars]\nepsilon = 1e308\n", 6, "scalars.epsilon", "not 1e+308", ""),
        (HEAD + "[scalars]\n'a b' = 1.0\n", 6, 'scalars."a b"', "not allowed", "use 1 to 63"),
        (HEAD + "[space]\n", 5, "space", "names no implementation", "leave [space] out"),
        (HEAD + "[space.a]\n[space.b]\nP = 3\n", 7, "space.b.P", "must be an array", "brackets"),
        (HEAD + "[space.a]\nP = [1,\n 2, 1]\n", 6, "space.a.P", "1 is listed twice", "once"),
        (HEAD + "[space.a]\nP = [1, [2]]\n", 6, "space.a.P[1]", "can't be", "whole number"),
        (HEAD + "[space.a]\nP = [1979-05-27]\n", 6, "space.a.P[0]", "can't be", ""),
        (HEAD + "[space.a]\nP = [9223372036854775808]\n", 6, "space.a.P[0]", "can't be", ""),
        (HEAD + "[space.a]\nP = [nan]\n", 6, "space.a.P[0]", "NaN can't be", ""),
        (HEAD + '[space.a]\nP = ["\\u0000"]\n', 6, "space.a.P[0]", "can't be", ""),
        (HEAD + '[space."../x"]\n', 5, 'space."../x"', "not allowed", "use 1 to 63"),
        (HEAD + 'description = "a\\nb"\n', 5, "description", "control character", "one line"),
        (HEAD.replace('"s"', '"../etc"'), 2, "name", "not allowed", "a-z"),
        (HEAD.replace('"s"', '"s "'), 2, "name", "not allowed", "a-z"),
        (HEAD.replace('"s"', '""'), 2, "name", "not allowed", "a-z"),
        (HEAD.replace('"s"', "'" + "s" * 10**5 + "'"), 2, "name", "...", "a-z"),
        (HEAD.replace("schema = 1", "schema = 2"), 1, "schema", "must be 1, not 2", "version 1"),
        (HEAD.replace("schema = 1", "schema = true"), 1, "schema", "not true", "version 1"),
        (HEAD.replace("schema = 1\n", ""), 1, "schema", "is missing", "add it"),
        (HEAD.replace('"4x8"', '"4x8", "04X8"'), 4, "shapes", "listed twice", "once"),
        (HEAD.replace('"4x8"', '"0x8"'), 4, "shapes[0]", "from 1 to 2^63-1", "at least 1"),
        (HEAD.replace('"4x8"', '"9223372036854775808"'), 4, "shapes[0]", "2^63-1", ""),
        (HEAD.replace('"4x8"', '"4x٨"'), 4, "shapes[0]", "not understood", "joined by x"),
        (HEAD.replace('"4x8"', "48"), 4, "shapes[0]", "must be a string, not 48", "quotes"),
        (HEAD + "[[space]]\n", 5, "space", "must be a table", ""),
        ("a = 1\nb = 2\n" + HEAD, 1, "a", "unknown key (and 1 more)", ""),
    ],
)
def test_a_fault_names_file_line_key_and_remedy(
    text: str, line: int, key: str, what: str, hint: str
) -> None:
    error = refusal(text)
    assert error.message.startswith(f"s.toml:{line}: key '{key}': "), error.message
    assert what in error.message
    assert hint in error.hint
    assert error.hint


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("name = \n", 1, "invalid value"),
        (HEAD + 'name = "t"\n', 5, "cannot overwrite"),
        (HEAD + "[quick]\n[quick]\n", 6, "cannot declare"),
        (HEAD + "[quick]\nsamples = 1\nsamples = 2\n", 7, "cannot overwrite"),
        (HEAD + "description = 'a\n", 6, "expected"),
        (HEAD + 'description = """a\n', 6, ""),
        (HEAD + "device = no\n", 5, "invalid value"),
        (HEAD + 'description = "\\ud800"\n', 5, ""),
        (HEAD + "description = '\0'\n", 5, ""),
        (HEAD + "[quick]\nsamples = 0o1_\n", 6, ""),
        (HEAD + "x = " + "9" * 5000 + "\n", 5, "a number is too long"),
        ("!!python/object/apply:os.system ['true']\n", 1, "invalid"),
        (HEAD + "x = " + "[" * 10**4 + "]" * 10**4, 5, "nested deeper than 16"),
        (HEAD + ".".join("a" * 10**4) + " = 1", 5, "nested deeper than 16"),
        (HEAD + "x = " + "{a = " * 10**4 + "1" + "}" * 10**4, 5, "nested deeper than 16"),
    ],
)
def test_what_is_not_toml_names_file_and_line(text: str, line: int, what: str) -> None:
    message = refusal(text).message
    assert message.startswith(f"s.toml:{line}: "), message
    assert what in message


@pytest.mark.parametrize(
    "text",
    [
        "a.\n" * 80_000,
        "[" * MAX_FILE_BYTES,
        '"""' * 80_000,
        '"""' + '\\"""\n' * 50_000,
        "'''" + "\\'" * 120_000,
        "a" * MAX_FILE_BYTES,
        HEAD + 'description = "' + "\\n" * 120_000 + '"',
        HEAD + "x = [" + "1," * 120_000 + "]",
        HEAD + "[space.a]\nP = [" + "'',nan," * 35_000 + "]",
        HEAD + "".join(f"k{index} = 1\n" for index in range(20_000)),
        HEAD + "".join(f"[k{index}]\n" for index in range(20_000)),
        HEAD + "[[k]]\n" * 40_000,
        HEAD + "x = 1" + "0" * 240_000,
        "\ufeff" * 80_000,
        " " * MAX_FILE_BYTES,
    ],
    ids=lambda text: ascii(text[:20] + text[-12:]),
)
def test_a_hostile_file_is_refused_quickly(text: str) -> None:
    started = time.process_time()
    refusal(text)
    assert time.process_time() - started < 2.0


TOML_VALUES = st.recursive(
    st.one_of(
        st.integers(-(2**64), 2**64).map(str),
        st.sampled_from(["true", "false", "nan", "-inf", "1e308", "-0.0", "1979-05-27", "no", ""]),
        st.text(max_size=20).map(json.dumps),
        st.text(max_size=20).map(lambda text: f"'{text}'"),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda parts: f"[{', '.join(parts)}]"),
        st.lists(inner, max_size=2).map(
            lambda parts: "{" + ", ".join(f"k{i} = {part}" for i, part in enumerate(parts)) + "}"
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_value_in_any_place_is_accepted_or_refused_in_one_line(data: st.DataObject) -> None:
    lines = FULL.split("\n")
    place = data.draw(st.sampled_from([i for i, line in enumerate(lines) if "=" in line]))
    lines[place] = lines[place].split("=")[0] + "= " + data.draw(TOML_VALUES)
    text = "\n".join(lines)
    try:
        plain = parse_study(text, "s.toml").as_plain()
    except UsageError:
        refusal(text)
    else:
        assert json.loads(canonical_json(plain)) == plain


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_damaged_file_is_accepted_or_refused_in_one_line(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(FULL)))
    end = data.draw(st.integers(start, min(len(FULL), start + 40)))
    text = FULL[:start] + data.draw(st.text(max_size=5)) + FULL[end:]
    try:
        parse_study(text, "s.toml")
    except UsageError:
        refusal(text)


# --- finding the line


def test_lines_are_found_through_every_way_to_write_a_key() -> None:
    text = (
        'top = """\nfake = 1\n"""\n'  # 1-3
        "[a.b] # [c]\n"  # 4
        "'x y' = 1\n"  # 5
        'c . "d" = { e = 2 }\n'  # 6
        "list = [\n  [1, 2], # ]\n  'x = [',\n]\n"  # 7-10
        "[[t]]\nk = 1\n[[t]]\nk = 2\n"  # 11-14
        "[t.sub]\nk = 3\n"  # 15-16
    )
    expected: list[tuple[tuple[str | int, ...], int]] = [
        (("top",), 1),
        (("a", "b"), 4),
        (("a", "b", "x y"), 5),
        (("a", "b", "c", "d"), 6),
        (("a", "b", "c", "d", "e"), 6),
        (("a", "b", "list", 1), 7),
        (("t", 0, "k"), 12),
        (("t", 1, "k"), 14),
        (("t", 1, "sub", "k"), 16),
        (("t", 1, "absent"), 13),
        (("absent",), 1),
    ]
    assert [(path, line_of(text, path)) for path, _ in expected] == expected


# --- reading files


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xef\xbb\xbf" + HEAD.encode())
    assert load_study(path).name == "s"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEAD.encode("utf-16"), "not UTF-8"),
        (HEAD.encode() + b"# \xff\n", "s.toml:5: not UTF-8"),
        (HEAD.encode("utf-16-le"), "s.toml:1: "),
        (b"SQLite format 3\0" + bytes(100), "s.toml:1: "),
        (b"\x80\x04\x95", "not UTF-8"),
        (b"#" * (MAX_FILE_BYTES + 1), "larger than"),
        (b"", "key 'schema': is missing"),
    ],
)
def test_a_file_that_is_no_study_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_study(path)
    assert message in caught.value.message
    assert str(path) in caught.value.message


def test_what_is_no_regular_file_is_refused_without_reading(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (tmp_path, tmp_path / "absent.toml", fifo, Path("/dev/zero")):
        with pytest.raises(UsageError, match="no such study file"):
            load_study(path)


# --- against the operator


@pytest.mark.parametrize(
    ("text", "line", "what", "hint"),
    [
        (HEAD.replace("4x8", "4x8x2"), 4, "takes 2 dimensions, 4x8x2 has 3", "rowsxcols"),
        (HEAD + 'dtype = "float31"\n', 5, 'does not support "float31"', "'float32'"),
        (HEAD + "[scalars]\nepsilom = 1.0\n", 6, "no such scalar", "'epsilon'"),
        (HEAD + '[protocol]\ninput_case = "odd"\n', 6, 'no input case "odd"', "normal"),
        (HEAD + "[space.hip-blok]\n", 5, "no such implementation", "'hip-block'"),
        (HEAD + "[space.hip-block]\nBLOK = [1]\n", 6, "no such parameter", "'BLOCK'"),
        (HEAD + '[space.hip-block]\nBLOCK = ["256"]\n', 6, '"256" is not of', "64, 128, 256"),
        (HEAD + "[space.hip-block]\nBLOCK = [64, 256.0]\n", 6, "256.0 is not of", "64"),
        (HEAD + "[space.hip-block]\nBLOCK = [true]\n", 6, "true is not of", "64"),
        (HEAD + "[space.hip-block]\nFAST = [1]\n", 6, "1 is not of", "true"),
        (HEAD + "[space.hip-block]\nSCALE = [1]\n", 6, "a decimal number", "0.5"),
    ],
)
def test_what_the_operator_does_not_have_is_refused_with_its_line(
    text: str, line: int, what: str, hint: str
) -> None:
    spec = parse_study(text, "s.toml")
    with pytest.raises(UsageError) as caught:
        check_against(spec, fake_operator())
    assert caught.value.message.startswith(f"s.toml:{line}: key '")
    assert what in caught.value.message
    assert hint in caught.value.hint


def test_a_study_that_fits_gives_its_workloads() -> None:
    text = HEAD + "scalars = { epsilon = 2 }\n[space.hip-block]\nBLOCK = [96]\n"
    spec = parse_study(text, "s.toml")
    workloads: Any = spec.workloads(fake_operator())
    assert [each.shape for each in workloads] == [(4, 8)]
    assert workloads[0].scalars == (("epsilon", 2.0),)
    assert [each.name for each in spec.implementations(fake_operator())] == ["hip-block"]
