"""Commands in a message: the exact form is read, and whatever looks like one is no message."""

from __future__ import annotations

import pytest

from placet.core.errors import InvalidInput
from placet.core.spoken import Malformed, SpokenApprove, SpokenReject, refuse_command, spoken

ID = "rq_0123456789abcdef"

#: What people and programs type that is meant for a person's decision, in no exact form.
ODD_FORMS = [
    "/approve",
    "/approve ",
    "/reject",
    f"/reject {ID}",
    f"/reject {ID}   \n ",
    f"/approve {ID} please",
    f"/approve {ID}\nand go on",
    f"/approve {ID}\n/approve rq_fedcba9876543210",
    f"/APPROVE {ID}",
    f"/Approve {ID}",
    f"/reJect {ID} no",
    f"/ approve {ID}",
    f"//approve {ID}",
    f"\uff0fapprove {ID}",
    f"\u2044approve {ID}",
    f"\u2215reject {ID} no",
    f"\u29f8approve {ID}",
    f"\u200b/approve {ID}",
    f"/\u200bapprove {ID}",
    f"/app\u200drove {ID}",
    f"/app\u00adrove {ID}",
    f"\ufeff/approve {ID}",
    f"\u202e/approve {ID}",
    f"/\ufe0fapprove {ID}",
    f"/\u3164approve {ID}",
    f"/a\u0301pprove {ID}",
    f"/\uff41\uff50\uff50\uff52\uff4f\uff56\uff45 {ID}",
    f"/\U0001d41a\U0001d429\U0001d429\U0001d42b\U0001d428\U0001d42f\U0001d41e {ID}",
    f"/\napprove {ID}",
    f"/approve\u00a0{ID}!",
    f"`/approve {ID}`",
    f"> /approve {ID}",
    f"- /reject {ID} no",
    f'"/approve {ID}"',
    f"/approve: {ID}",
    f"/approve #{ID}",
    f"/approve {ID.upper()}",
    "/approve 7",
    "/approve all",
    f"/approved {ID}",
    f"yes, do it\n/approve {ID}",
    f"no\r\n  /Reject {ID} too much",
]


@pytest.mark.promise("H5")
@pytest.mark.conformance(35, 36)
@pytest.mark.parametrize("text", ODD_FORMS, ids=ascii)
def test_what_only_looks_like_a_command_decides_nothing_and_is_no_message(text: str) -> None:
    found = spoken(text)
    assert isinstance(found, Malformed)
    assert "/approve ID" in found.hint
    with pytest.raises(InvalidInput) as refused:
        refuse_command(text)
    assert refused.value.code == "command_as_message"


@pytest.mark.promise("H5")
@pytest.mark.conformance(35, 36)
@pytest.mark.parametrize(
    "text, means",
    [
        (f"/approve {ID}", SpokenApprove(request=ID)),
        (f"  /approve   {ID}\n", SpokenApprove(request=ID)),
        (f"/approve\n{ID}", SpokenApprove(request=ID)),
        (f"/reject {ID} too much", SpokenReject(request=ID, reason="too much")),
        (f"/reject {ID} two\nlines", SpokenReject(request=ID, reason="two\nlines")),
        (f"/reject {ID}\ntwo\n  lines ", SpokenReject(request=ID, reason="two\n  lines")),
    ],
    ids=ascii,
)
def test_the_exact_form_is_read_and_is_no_message_either(text: str, means: object) -> None:
    assert spoken(text) == means
    with pytest.raises(InvalidInput):
        refuse_command(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "approve it",
        f"please approve {ID}",
        "who may /approve this?",
        f"what does `/approve {ID}` do?",
        "https://example.org/approve",
        "src/approve.py fails",
        "add the routes\n/approve\n/reject\nto the API",
        "\u2044tmp/approve",
        "/help",
        "/app/rove",
    ],
    ids=ascii,
)
def test_a_message_that_only_speaks_of_one_is_a_message(text: str) -> None:
    assert spoken(text) is None
    refuse_command(text)
