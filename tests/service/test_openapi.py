"""The API's description: complete, and changed on purpose only."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tuner.service.app import create_app
from tuner.settings import Settings

SNAPSHOT = Path(__file__).with_name("openapi.json")


def described() -> dict[str, Any]:
    """Return the description as a client reads it."""
    app = create_app(Settings(db="none.db"))
    found: dict[str, Any] = json.loads(json.dumps(app.openapi()))
    found["info"]["version"] = "of the package"
    return found


def snapshot_text() -> str:
    return json.dumps(described(), indent=1, sort_keys=True) + "\n"


@pytest.fixture(scope="module")
def operations() -> dict[str, dict[str, Any]]:
    """Return all operations by method and path."""
    return {
        f"{method.upper()} {path}": operation
        for path, methods in described()["paths"].items()
        for method, operation in methods.items()
    }


def test_the_description_is_the_stored_one() -> None:
    stored = SNAPSHOT.read_text(encoding="utf-8")

    assert snapshot_text() == stored, (
        f"if the change is meant: python {Path(__file__).name}, and look at the difference"
    )


def test_every_list_is_there_as_csv_too(operations: dict[str, dict[str, Any]]) -> None:
    schemas = described()["components"]["schemas"]
    lists = [name for name, each in schemas.items() if "items" in each.get("properties", {})]
    with_lists = {
        name
        for name, each in operations.items()
        if (found := _schema_of(each)) and found.rpartition("/")[2] in lists
    }

    assert len(with_lists) == len(lists) == 8
    for name in with_lists:
        assert f"{name}.csv" in operations


def test_every_answer_and_parameter_is_described(operations: dict[str, dict[str, Any]]) -> None:
    identifiers = [each["operationId"] for each in operations.values()]
    assert len(set(identifiers)) == len(identifiers)
    for name, operation in operations.items():
        responses = operation["responses"]
        assert operation["description"], name
        assert "422" not in responses, name
        assert {"400", "403", "405", "503"} <= set(responses), name
        for status, answer in responses.items():
            assert answer["description"], name
            if int(status) >= 400:
                schema = answer["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}, name
            elif status != "204":
                assert answer["content"], name
        if "{" in name:
            assert "404" in responses, name
        if name.startswith("POST"):
            assert {"401", "408", "413", "415", "429"} <= set(responses), name
            assert {} not in operation["security"], name


def _schema_of(operation: dict[str, Any]) -> str:
    content = operation["responses"].get("200", {}).get("content", {})
    reference: str = content.get("application/json", {}).get("schema", {}).get("$ref", "")
    return reference


if __name__ == "__main__":
    SNAPSHOT.write_text(snapshot_text(), encoding="utf-8")
    sys.stderr.write(f"{SNAPSHOT} written\n")
