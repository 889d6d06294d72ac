"""Replacing a passage in a text: what is found, what is left alone, and what is said if not."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from placet.agent.builtin.text_edits import MOST_PLACES, Edited, Unmatched, edited

ALPHABET = "ab \t\n\r{}é"
texts = st.text(alphabet=ALPHABET, max_size=40)
passages = st.text(alphabet=ALPHABET, min_size=1, max_size=6)
#: Lines without blanks at either end, and blanks to put there.
words = st.text(alphabet="abc(){}:=", min_size=1, max_size=6)
blanks = st.sampled_from(["", " ", "\t", "  ", " \t"])


def why(text: str, old: str, new: str, **more: bool) -> str:
    with pytest.raises(Unmatched) as refused:
        edited(text, old=old, new=new, **more)
    return str(refused.value)


def attempt(text: str, old: str, new: str, **more: bool) -> tuple[Edited | None, str]:
    """Give what an edit gives, or what it says."""
    try:
        return edited(text, old=old, new=new, **more), ""
    except Unmatched as refused:
        return None, str(refused)


# --- exact ----------------------------------------------------------------------------------------


def test_one_exact_passage_is_replaced_and_the_rest_left_alone() -> None:
    done = edited("a\nb\nc", old="b", new="B\nB")
    assert (done.text, done.lines, done.found) == ("a\nB\nB\nc", (2,), "exact")


def test_an_exact_passage_wins_over_those_with_other_blanks() -> None:
    text = "    if x:\n        pass\nif x:\n    pass\n"
    assert edited(text, old="\nif x:\n    pass\n", new="\nend\n").text.endswith("pass\nend\n")


def test_a_passage_in_several_places_is_refused_with_their_lines() -> None:
    said = why("x = 1\ny = 1\nx = 1\n", "x = 1", "x = 2")
    assert "found 2 times (lines 1, 3)" in said
    assert "replace_all=true" in said


def test_passages_that_overlap_are_several_places() -> None:
    assert "2 times (line 1)" in why("aaa", "aa", "b")


def test_all_places_are_replaced_where_that_is_asked() -> None:
    done = edited("aaa\naa\n", old="aa", new="b", replace_all=True)
    assert (done.text, done.lines) == ("ba\nb\n", (1, 2))


def test_an_empty_passage_and_one_that_changes_nothing_are_refused() -> None:
    assert "`old` is empty" in why("a", "", "b")
    assert "are the same" in why("a", "a", "a")
    assert "line ends or blanks alone" in why("a\r\nb", "a\nb", "a\r\nb")


def test_more_places_than_can_be_replaced_at_once_are_refused() -> None:
    assert "more than 100000 times" in why("a" * (MOST_PLACES + 1), "a", "b", replace_all=True)
    assert "more than 100 times" in why("a" * (MOST_PLACES + 1), "a", "b")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_text_made_to_be_slow_is_not() -> None:
    assert "more than 100 times" in why("a\n" * 500_000, " a\n a", "b")
    assert "not found" in why("a\n" * 400_000, " a\n" * 200_000 + " b", "b")
    assert "more than 100 times" in why("a" * 2_000_000, "a" * 1_000_000, "b")
    indents = [" " * n for n in range(600)]
    text = "".join(f"{indent} x{len(indent)}\n" for indent in indents)
    old = "".join(f"{indent}x{len(indent)}\n" for indent in indents)
    assert edited(text, old=old, new=f"{' ' * 900}y\n" * 600).text.startswith(" " * 901)


@given(before=texts, old=passages, after=texts, new=texts)
def test_whatever_is_replaced_once_leaves_what_is_around_it(
    before: str, old: str, after: str, new: str
) -> None:
    text = before + old + after
    done, _ = attempt(text, old, new)
    if done is not None and done.found == "exact" and text.count(old) == 1:
        assert done.text.startswith(before)
        assert done.text.endswith(after)


@given(before=texts, old=passages, after=texts, new=texts)
def test_with_one_kind_of_line_end_all_places_are_replaced_as_python_replaces(
    before: str, old: str, after: str, new: str
) -> None:
    before, old, after, new = (each.replace("\r", "") for each in (before, old, after, new))
    text = before + old + after
    assume(old and text.replace(old, new) != text)
    assert edited(text, old=old, new=new, replace_all=True).text == text.replace(old, new)


@given(text=texts, old=passages, new=texts, replace_all=st.booleans())
def test_any_edit_gives_another_text_or_says_why_not(
    text: str, old: str, new: str, replace_all: bool
) -> None:
    done, said = attempt(text, old, new, replace_all=replace_all)
    assert (done is None) == bool(said)
    assert done is None or done.text != text


# --- line ends ------------------------------------------------------------------------------------


def test_crlf_is_found_by_plain_line_ends_and_kept() -> None:
    done = edited("a\r\nb\r\nc\r\n", old="a\nb\n", new="x\ny\nz\n")
    assert (done.text, done.found) == ("x\r\ny\r\nz\r\nc\r\n", "line ends")


def test_plain_line_ends_are_found_by_crlf_and_kept() -> None:
    assert edited("a\nb\nc\n", old="a\r\nb", new="x\r\ny").text == "x\ny\nc\n"


def test_a_new_line_in_a_crlf_text_ends_as_the_others() -> None:
    assert edited("a\r\nb\r\n", old="b", new="b\nc").text == "a\r\nb\r\nc\r\n"
    assert edited("a\r\nb", old="b", new="b\nc").text == "a\r\nb\r\nc"


def test_a_passage_that_begins_with_a_line_end_does_not_cut_a_crlf() -> None:
    assert edited("a\r\nb", old="\nb", new="\nc").text == "a\r\nc"


def test_in_a_mixed_text_only_the_replaced_lines_change() -> None:
    done = edited("a\nb\r\nc\nd\r\n", old="b\nc", new="x\ny\nz")
    assert done.text == "a\nx\r\ny\r\nz\nd\r\n"


@given(lines=st.lists(words, min_size=1, max_size=6, unique=True), at=st.integers(0, 5), new=words)
def test_an_edit_of_a_crlf_text_is_that_of_the_plain_one(
    lines: list[str], at: int, new: str
) -> None:
    old = "\n".join(lines[at % len(lines) :][:2])
    plain = "".join(f"{line}\n" for line in lines)
    assume(plain.count(old) == 1 and old != new)
    expected = edited(plain, old=old, new=new).text
    assert edited(plain.replace("\n", "\r\n"), old=old, new=new).text == expected.replace(
        "\n", "\r\n"
    )


# --- other blanks ---------------------------------------------------------------------------------


def test_trailing_blanks_are_overlooked_where_one_place_is_meant() -> None:
    done = edited("a  \nb\t\nc\n", old="a\nb\n", new="x\n")
    assert (done.text, done.found) == ("x\nc\n", "trailing blanks")


def test_lines_that_lack_the_indentation_are_found_and_the_new_ones_get_it() -> None:
    text = "class A:\n    def f(self):\n        return 1\n"
    done = edited(
        text,
        old="def f(self):\n    return 1\n",
        new="def f(self):\n    if self:\n        return 2\n\n    return 1\n",
    )
    assert done.found == "indentation"
    assert done.text == (
        "class A:\n    def f(self):\n        if self:\n            return 2\n\n        return 1\n"
    )


def test_lines_with_too_much_indentation_are_found_and_the_new_ones_lose_it() -> None:
    done = edited("if a:\n    b\n", old="    if a:\n        b", new="    if a:\n        c")
    assert done.text == "if a:\n    c\n"


def test_spaces_for_tabs_are_found_and_the_new_lines_get_tabs() -> None:
    text = "func f() {\n\tif a {\n\t\tb()\n\t}\n}\n"
    done = edited(
        text,
        old="    if a {\n        b()\n    }",
        new="    if a {\n        for {\n            b()\n        }\n    }",
    )
    assert done.text == "func f() {\n\tif a {\n\t\tfor {\n\t\t\tb()\n\t\t}\n\t}\n}\n"


def test_other_widths_of_a_level_are_carried_over() -> None:
    text = "a:\n    b:\n        c\n"
    done = edited(text, old="a:\n  b:\n    c", new="a:\n  b:\n    c:\n      d")
    assert done.text == "a:\n    b:\n        c:\n            d\n"


@pytest.mark.parametrize(
    "text, old, new",
    [
        ("\ta\n", "    a  ", "      b"),  # Six spaces are no levels of four.
        ("\t\ta\n", "    a", "        b"),  # One level of spaces, or of two tabs?
        ("a\n    b\n", "   a\n  b", "c"),  # Further in here, and further out there.
        ("\ta\n", "a ", "a\n    b"),  # Spaces after a tab.
    ],
)
def test_an_indentation_that_does_not_follow_is_not_guessed(text: str, old: str, new: str) -> None:
    assert "not clear how `new` is to be indented" in why(text, old, new)


def test_several_places_with_other_blanks_are_refused_even_for_all() -> None:
    text = "  a()\n  b()\n    a()\n    b()\n"
    for replace_all in (False, True):
        said = why(text, "a()\nb()", "c()", replace_all=replace_all)
        assert "with other indentation it was, 2 times (lines 1, 3)" in said


def test_lines_of_blanks_alone_are_like_nothing() -> None:
    assert "not found" in why("a\n\n\nb\n", " \n ", "x")


def test_a_text_without_a_last_line_end_gets_none() -> None:
    done = edited("a\n  b", old="b\n", new="c\n")
    assert done.text == "a\n  c"


@given(
    lines=st.lists(words, min_size=1, max_size=5, unique=True),
    ends=st.lists(blanks, min_size=5, max_size=5),
    depth=st.integers(0, 3),
    around=st.lists(st.sampled_from(["z", "", "zz"]), max_size=3),
    tabs=st.booleans(),
)
def test_a_block_is_replaced_whatever_the_blanks_around_its_lines(
    lines: list[str], ends: list[str], depth: int, around: list[str], tabs: bool
) -> None:
    level = "\t" if tabs else "    "
    body = [f"{level * (depth + n % 2)}{line}" for n, line in enumerate(lines)]
    text = "\n".join([*around, *(f"{a}{b}" for a, b in zip(body, ends, strict=False)), *around])
    old = "\n".join(f"{level * (n % 2)}{line}" for n, line in enumerate(lines))
    new = "\n".join(f"{level * (n % 2)}{line}!" for n, line in enumerate(lines))
    done, said = attempt(text, old, new)
    if done is None:
        assert "times" in said
        return
    if done.found == "exact":
        return
    expected = [f"{line}!" for line in body]
    assert done.text == "\n".join([*around, *expected, *around])


# --- what is nearest ------------------------------------------------------------------------------


def test_what_is_not_found_is_answered_with_the_nearest_lines() -> None:
    text = "def total(items):\n    return sum(items)\n\ndef other():\n    pass\n"
    said = why(text, "def total(item):\n    return sum(item)", "x")
    assert "not found in the file. The nearest lines are:" in said
    assert "1\tdef total(items):\n2\t    return sum(items)" in said


def test_where_nothing_is_near_that_is_said() -> None:
    assert "No line is like it" in why("aaaa\nbbbb\n", "zzzzzz", "x")
    assert "No line is like it" in why("", "zzzzzz", "x")
