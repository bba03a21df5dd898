"""Settings: flag > TUNER_* environment variable > tuner.toml > default.

The only module that reads the process environment.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from platformdirs import user_cache_path
from platformdirs import user_data_path
from pydantic import Field
from pydantic import field_validator
from pydantic import SecretStr
from pydantic import ValidationError
from pydantic_settings import BaseSettings
from pydantic_settings import PydanticBaseSettingsSource
from pydantic_settings import SettingsConfigDict
from pydantic_settings import TomlConfigSettingsSource

from tuner.errors import UsageError


def _default_database() -> str:
    return f"sqlite:///{user_data_path('tuner', appauthor=False) / 'results.db'}"


class Settings(BaseSettings):
    """What can be set once for all commands."""

    model_config = SettingsConfigDict(
        env_prefix="TUNER_", toml_file="tuner.toml", extra="forbid", frozen=True
    )

    db: str = Field(default_factory=_default_database, description="Database URL or SQLite path")
    device: str = Field(default="auto", description="Device when a command names none")
    operators: tuple[Path, ...] = Field(default=(), description="Folders with further operators")
    studies: tuple[Path, ...] = Field(
        default=(), description="Folders with further study files that the service may start"
    )
    token: SecretStr | None = Field(
        default=None, description="What a client of the service must know to write"
    )
    cache_dir: Path = Field(
        default_factory=lambda: user_cache_path("tuner", appauthor=False),
        description="Compiled kernels; safe to delete",
    )
    cpu_wave_size: Literal[32, 64] = Field(
        default=32, description="Wave size of HIP kernels on the CPU device"
    )
    cpu_compiler: str = Field(default="", description="C++ compiler of the CPU device")

    @field_validator("cpu_wave_size", mode="before")
    @classmethod
    def _wave_size_from_text(cls, value: object) -> object:
        return int(value) if isinstance(value, str) and value.isdigit() else value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - not used: no .env files
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - not used
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: flags, environment, tuner.toml."""
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))


def load_settings(**flags: object) -> Settings:
    """Read the settings; flags that are None were not given.

    Raises:
        UsageError: A variable or a line of tuner.toml is wrong, or a folder is not there.
    """
    try:
        settings = Settings(**{name: value for name, value in flags.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"setting {name!r}: {first['msg']}",
            hint=f"look at TUNER_{name.upper()} and at tuner.toml in this folder",
        ) from error
    except ValueError as error:  # tuner.toml is not TOML
        raise UsageError(f"tuner.toml can't be read: {error}") from error
    _check_folders("operators", settings.operators)
    _check_folders("studies", settings.studies)
    return settings


def _check_folders(name: str, folders: Sequence[Path]) -> None:
    """Check folders that are named, here and not as values: those of a running service may go.

    Raises:
        UsageError: One is not there.
    """
    for folder in folders:
        if not os.path.isdir(folder):
            raise UsageError(
                f"there is no folder {folder} for --{name}",
                hint=f"it comes from --{name}, TUNER_{name.upper()} or tuner.toml",
            )
