"""Settings: each has a default, the environment wins, and what is malformed is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet import InvalidSetting
from placet.settings import Settings, current_account


def load(place: Path, text: str = "", **environment: str) -> Settings:
    file = place / "placet.toml"
    file.write_text(text)
    return Settings.load({"PLACET_CONFIG": str(file), **environment})


def test_without_any_setting_the_account_approves_and_the_store_is_a_file_here() -> None:
    settings = Settings.load({})
    assert settings.store == "sqlite:///placet.db"
    assert settings.approvers == (current_account(),)
    assert settings.tenant == "main"


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    text = 'store = "sqlite:///a.db"\napprovers = ["ana"]\n'
    settings = load(tmp_path, text, PLACET_STORE="sqlite:///b.db", PLACET_APPROVERS="ben, cleo")
    assert settings.store == "sqlite:///b.db"
    assert settings.approvers == ("ben", "cleo")


def test_no_approver_can_be_set() -> None:
    assert Settings.load({"PLACET_APPROVERS": ""}).approvers == ()


@pytest.mark.parametrize(
    "text, named",
    [
        ("colour = 1", "colour"),
        ("store = 1", "store"),
        ('tenant = ""', "tenant"),
        ('language = "tlh"', "language"),
        ("language = 1", "language"),
        ('approvers = "ana"', "approvers"),
        ("approvers = [1]", "approvers"),
        ('[approver_tokens]\nana = "abc"', "approver_tokens.ana"),
        ("store = ", "placet.toml"),
    ],
)
def test_a_malformed_setting_is_an_error_that_names_it(
    tmp_path: Path, text: str, named: str
) -> None:
    with pytest.raises(InvalidSetting, match=named):
        load(tmp_path, text)


def test_an_unknown_variable_and_a_missing_file_are_errors_that_name_them(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="PLACET_APROVERS"):
        Settings.load({"PLACET_APROVERS": "ana"})
    with pytest.raises(InvalidSetting, match="nowhere"):
        Settings.load({"PLACET_CONFIG": str(tmp_path / "nowhere.toml")})
