"""Keys as settings name them: one of each, read as they are written, and errors that name them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import pytest

from placet import InvalidSetting
from placet.core.errors import InvalidInput
from placet.keyring import key_of, old_key_of, signer_of, signing_key_of
from placet.runtime.keys import key_from, new_key, new_pair, public_key_in, signing_key_in
from placet.runtime.protected import protected_paths
from placet.settings import Settings
from placet.stores.sealing import PlacetKey

KEY = bytes(range(200, 232))


class Port:
    """A key port by its two methods."""

    def wrap(self, key: bytes) -> bytes:
        return key

    def unwrap(self, wrapped: bytes) -> bytes:
        return wrapped


THE_PORT = Port()
NO_PORT = object()


def of(settings: Settings | None = None, **environment: str) -> object:
    return key_of(settings or Settings(), environment)


def refused(settings: Settings | None = None, **environment: str) -> str:
    with pytest.raises(InvalidSetting) as caught:
        of(settings, **environment)
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        KEY.hex(),
        KEY.hex().upper() + "\n",
        base64.b64encode(KEY).decode(),
        base64.urlsafe_b64encode(KEY).decode(),
    ],
)
def test_a_key_is_32_bytes_in_hexadecimal_or_base64(text: str) -> None:
    assert key_from(text, named="PLACET_KEY").derived("x") == PlacetKey(KEY).derived("x")


@pytest.mark.parametrize("text", ["", "00" * 31, "00" * 33, "password", "0g" * 32, "é" * 44])
def test_what_is_no_key_is_named_and_not_repeated(text: str) -> None:
    message = refused(PLACET_KEY=text)
    assert message.startswith("PLACET_KEY must be 32 bytes")
    assert not text or text not in message


def test_keys_for_different_ends_have_nothing_in_common() -> None:
    key = PlacetKey(KEY)
    assert len({key.derived("heads"), key.derived("wrap"), key.derived("anchors"), KEY}) == 4


def test_no_setting_is_no_key_and_two_are_an_error(tmp_path: Path) -> None:
    assert of() is None
    new_key(tmp_path / "store.key")
    settings = Settings(key_file=str(tmp_path / "store.key"))
    assert isinstance(of(settings), PlacetKey)
    assert "PLACET_KEY, key_file" in refused(settings, PLACET_KEY=KEY.hex())
    both = Settings(key_file="x", key_port="tests.test_keyring:THE_PORT")
    assert "key_file, key_port" in refused(both)


def test_a_file_with_a_key_is_out_of_the_tools_reach(tmp_path: Path) -> None:
    new_key(tmp_path / "store.key")
    new_pair(tmp_path / "signing.pem")
    of(Settings(key_file=str(tmp_path / "store.key")))
    signing_key_in(tmp_path / "signing.pem")
    assert {tmp_path / "store.key", tmp_path / "signing.pem"} <= set(protected_paths())


def test_a_file_that_is_no_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "no.key").write_bytes(b"\xff\x00")
    (tmp_path / "large.key").write_bytes(b"0" * 100_000)
    for name in ("none.key", "no.key", "large.key"):
        assert name in refused(Settings(key_file=str(tmp_path / name)))
    new_key(tmp_path / "store.key")
    for name in ("none.pem", "no.key", "store.key"):
        with pytest.raises(InvalidSetting, match=name):
            signing_key_of(Settings(signing_key_file=str(tmp_path / name)))
        with pytest.raises(InvalidInput, match=name):
            public_key_in(tmp_path / name)


def test_a_port_is_an_object_with_both_methods_or_a_function_that_gives_one() -> None:
    for name in ("THE_PORT", "Port"):
        found = of(Settings(key_port=f"tests.test_keyring:{name}"))
        assert isinstance(found, Port)
    for name in ("NO_PORT", "nothing_there", "KEY", ""):
        assert "key_port" in refused(Settings(key_port=f"tests.test_keyring:{name}"))
    assert "key_port" in refused(Settings(key_port="no_such_module:port"))


@pytest.mark.parametrize(
    "environment, is_one",
    [
        ({}, False),
        ({"PLACET_OLD_KEY": KEY.hex()}, True),
        ({"PLACET_OLD_KEY": KEY.hex(), "PLACET_OLD_KEY_FILE": "x"}, False),
    ],
)
def test_the_old_key_is_named_once(environment: Mapping[str, str], is_one: bool) -> None:
    if is_one:
        assert old_key_of(environment).derived("x") == PlacetKey(KEY).derived("x")
    else:
        with pytest.raises(InvalidSetting, match="PLACET_OLD_KEY"):
            old_key_of(environment)


def test_a_pair_signs_before_a_shared_key_and_nothing_signs_without_either(
    tmp_path: Path,
) -> None:
    new_pair(tmp_path / "signing.pem")
    pair = Settings(signing_key_file=str(tmp_path / "signing.pem"))
    environment = {"PLACET_KEY": KEY.hex()}
    algorithms = [
        signer_of(settings, given)
        for settings, given in ((pair, environment), (Settings(), environment), (Settings(), {}))
    ]
    assert [getattr(each, "algorithm", None) for each in algorithms] == [
        "Ed25519",
        "HMAC-SHA256",
        None,
    ]
    with pytest.raises(InvalidSetting, match="which key signs"):
        signing_key_of(Settings())
