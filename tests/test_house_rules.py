"""Rules of this project that no linter knows."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.domain import patterns

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tuner"
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "_bundled" not in path.parts)

# Where anything may be caught: a trial, a user's operator file, Triton's compiler and
# interpreter, a plug-in of another package, and the command itself.
CATCH_ALL = {
    "bench/trial.py",
    "operator.py",
    "cli/app.py",
    "bench/languages/triton.py",
    "bench/languages/triton_interpreter.py",
    "bench/languages/triton_source.py",
    "bench/devices/registry.py",
}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_rules_of_a_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    name = name_of(path)
    assert text.count("\n") <= 400, "a file has at most 400 lines"
    assert ast.get_docstring(tree), "a module says what it is for"
    if name != "environ.py":
        assert "os.environ" not in text, "only environ.py reads the environment"
    if name not in {"cli/app.py"}:
        assert "sys.exit" not in set(calls(tree)), "only the command ends the process"
    if name not in CATCH_ALL:
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler) and node.type is not None:
                assert ast.unparse(node.type) != "Exception", "a file here catches what it knows"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or 0) - node.lineno
            assert length <= 60, f"{node.name} is {length} lines long"


def test_each_pattern_that_users_must_meet_is_said_in_words() -> None:
    named = {name for name in vars(patterns) if name.endswith("_PATTERN")}
    assert {vars(patterns)[name] for name in named} == set(patterns.IN_WORDS)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "pattern":
                assert ast.unparse(node.value) in named, f"{path}: say it in domain/patterns.py"


def test_the_package_knows_no_operator() -> None:
    operators = [path.parent.name for path in (ROOT / "kernels").glob("*/operator.py")]
    assert len(operators) >= 2
    for path in PACKAGE.rglob("*"):
        if path.suffix in {".py", ".h", ".html", ".j2"} and "_bundled" not in path.parts:
            text = path.read_text(encoding="utf-8").lower()
            for operator in operators:
                assert operator not in text, f"{path} mentions {operator}"


def test_nothing_is_unpickled_or_evaluated() -> None:
    banned = {"eval", "exec", "pickle.load", "pickle.loads", "yaml.load", "os.system"}
    for path in SOURCES:
        if name_of(path) == "bench/languages/triton_source.py":
            continue  # executes the kernel's module, which is what it is for
        found = banned & set(calls(ast.parse(path.read_text(encoding="utf-8"))))
        assert not found, f"{path} calls {found}"


def test_our_alembic_folder_does_not_hide_the_package() -> None:
    assert not (ROOT / "alembic" / "__init__.py").exists()
    code = "import alembic; print(alembic.__file__)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert "site-packages" in answer.stdout


def test_the_constraints_name_versions_only() -> None:
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert line.startswith("#") or "==" in line
        assert "://" not in line
