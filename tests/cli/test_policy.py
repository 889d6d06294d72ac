"""The commands for the policy file, and the page that shows ten calls explained."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from examples.policy import policy_desk
from placet import Agent, ScriptedModel
from placet.agent.models.scripted import call, calls, say
from placet.policy import shell_tree
from tests.cli.place import Ended, do
from tests.runtime.desk import Desk, effect
from tests.tidy import ROOT

PAGE = (ROOT / "docs/how-to/write-a-policy.md").read_text(encoding="utf-8")
POLICY = ROOT / "examples/policy/placet.policy.toml"
CASES = ROOT / "examples/policy/policy_cases.toml"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a directory with the page's policy and its app."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(POLICY, tmp_path)
    shutil.copy(CASES, tmp_path)
    settings = 'app = "examples.policy.policy_desk:desk"\napprovers = ["zoe"]\n'
    (tmp_path / "placet.toml").write_text(settings, encoding="utf-8")
    return tmp_path


def explain(tool: str, *more: str, **arguments: object) -> Ended:
    return do("policy", "explain", tool, "--arguments", json.dumps(arguments), "--json", *more)


def write(place: Path, text: str) -> None:
    (place / "placet.policy.toml").write_text(f"version = 1\n{text}", encoding="utf-8")


# --- the page ---------------------------------------------------------------------------------

SHOWN = [
    (line.removeprefix("$ placet "), output)
    for line, output in re.findall(r"```console\n(\$ placet [^\n]+)\n(.*?)```", PAGE, re.DOTALL)
]
EXPLAINED = [line for line, _ in SHOWN if line.startswith("policy explain")]


def test_the_page_explains_ten_calls_and_shows_the_policy_that_it_explains_them_by() -> None:
    assert len(EXPLAINED) == len(set(EXPLAINED)) == 10
    assert re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) == [POLICY.read_text("utf-8")]


@pytest.mark.promise("G1")
@pytest.mark.parametrize("line, output", [shown for shown in SHOWN if shown[1]])
def test_a_command_of_the_page_prints_what_the_page_shows(
    place: Path, line: str, output: str
) -> None:
    ended = do(*shlex.split(line))

    assert (ended.code, ended.out, ended.err) == (0, output, "")


def test_to_explain_leaves_nothing_behind(place: Path) -> None:
    before = sorted(place.iterdir())

    assert explain("order_status", order="A-1").code == 0
    assert sorted(place.iterdir()) == before


# --- check ------------------------------------------------------------------------------------


def test_check_tells_all_that_is_wrong_with_the_lines(place: Path) -> None:
    write(place, '[[rule]]\nname = "x"\nruling = "alow"\nquorum = 0\n')
    plain, asked = do("policy", "check"), do("policy", "check", "--json")

    assert plain.code == asked.code == 1
    assert plain.out == (
        "placet.policy.toml:4: ruling must be one of allow, ask, deny. Did you mean 'allow'?\n"
        "placet.policy.toml:5: quorum must be a whole number from 1 to 50.\n"
    )
    assert [fault["line"] for fault in asked.document["faults"]] == [4, 5]
    assert asked.document["ok"] is False


def test_check_takes_a_file_or_that_of_the_settings(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "other.toml").write_text("version = 1\n", encoding="utf-8")

    assert do("policy", "check", "other.toml", "--json").document["rules"] == 0
    monkeypatch.setenv("PLACET_POLICY", "other.toml")
    assert do("policy", "check", "--json").document["file"] == "other.toml"


@pytest.mark.parametrize("name", ["none.toml", "."])
def test_what_is_no_file_is_a_mistake_in_the_command(place: Path, name: str) -> None:
    check = do("policy", "check", name, "--json")
    test = do("policy", "test", name, "--json")

    assert (check.code, check.error["code"]) == (2, "no_policy_file")
    assert (test.code, test.error["code"]) == (2, "cases_broken")
    assert test.error["message"] == f"{name}: There is no such file."


def test_check_without_a_file_says_where_it_looked(place: Path) -> None:
    (place / "placet.policy.toml").unlink()
    ended = do("policy", "check")

    assert ended.code == 2
    assert (
        f"placet.policy.toml in {place} (no setting names another): There is no such file."
        " [no_policy_file] Name it: `placet policy check FILE`, or as `policy` in placet.toml.\n"
    ) in ended.err


def test_a_broken_file_of_cases_is_a_mistake_and_all_that_is_wrong_is_told(place: Path) -> None:
    (place / "cases.toml").write_text("[[case]]\nname = 1\ntol = 2\n", encoding="utf-8")
    ended = do("policy", "test", "cases.toml", "--json")

    assert (ended.code, ended.error["code"]) == (2, "cases_broken")
    assert "cases.toml:2: " in ended.error["message"]
    assert "cases.toml:3: " in ended.error["message"]


def test_check_notes_what_is_named_and_not_there(place: Path) -> None:
    write(
        place,
        '[surfaces]\n"*" = "off"\npayment = "off"\n[[rule]]\nname = "x"\nruling = "deny"\n'
        'tools = ["isue_refund", "send_*"]\nagents = ["desk", "boss"]\n',
    )
    ended = do("policy", "check", "--app", "examples.policy.policy_desk:desk")

    assert ended.code == 0
    assert ended.out == (
        "placet.policy.toml: note: The app has no surface 'payment'; is 'payments' meant?"
        " ([surfaces])\n"
        "placet.policy.toml:5: note: The app has no agent 'boss' (x)\n"
        "placet.policy.toml:5: note: The app has no tool 'isue_refund'; is 'issue_refund' meant?"
        " (x)\n"
        "placet.policy.toml: 1 rule, 0 groups, 0 delegations: ok\n"
    )
    assert (
        len(
            do("policy", "check", "--app", "examples.policy.policy_desk:desk", "--json").document[
                "notes"
            ]
        )
        == 3
    )
    assert do("policy", "check", "--json").document["notes"] == []


def test_check_notes_arguments_that_no_tool_has_and_escalations_that_reach_nobody(
    place: Path,
) -> None:
    write(
        place,
        '[groups]\nboss = ["zoe", "ana"]\n[[rule]]\nname = "x"\nruling = "ask"\n'
        'tools = ["issue_*"]\napprovers = ["@boss"]\n'
        'escalate = [{after = "1m", approvers = ["ana"]}, {after = "2m", approvers = ["cy"]}]\n'
        'when = [{argument = "ordr", in = ["A-1"]}, {argument = "amount", above = 5}]\n',
    )
    ended = do("policy", "check", "--app", "examples.policy.policy_desk:desk")

    assert [line for line in ended.out.splitlines() if "note" in line] == [
        "placet.policy.toml:4: note: Escalation reaches nobody new: ana may decide already (x)",
        "placet.policy.toml:4: note: No tool that it is for has an argument 'ordr'; is 'order'"
        " meant? (x)",
    ]


def test_check_and_doctor_note_commands_that_cannot_be_read_without_the_extra(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "allows no command here, for none can be read without the extra `shell` (commands)"
    if shell_tree.grammar() is not None:
        assert told not in do("policy", "check").out
        assert told not in do("doctor").out
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)
    shell_tree.grammar.cache_clear()
    try:
        ended, document = do("policy", "check"), do("policy", "check", "--json").document
        health = {
            each["name"]: (each["health"], each["detail"])
            for each in do("doctor", "--json").document["checks"]
        }
        write(place, "")
        assert do("policy", "check", "--json").document["notes"] == []
    finally:
        shell_tree.grammar.cache_clear()

    (rule,) = [
        n for n, line in enumerate(POLICY.read_text("utf-8").split("\n"), 1) if "commands" in line
    ]
    assert ended.code == 0
    assert f"placet.policy.toml:{rule - 1}: note: It {told}" in ended.out
    assert ended.out.endswith(": ok\n")
    assert [note["line"] for note in document["notes"]] == [rule - 1]
    assert health["policy"][0] == "ok"
    assert health["policy"][1].endswith(f"; line {rule - 1}: It {told}")


@pytest.mark.parametrize("example", ["policy explain issue_refund", "policy test"])
def test_the_page_runs_in_a_copy_of_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str
) -> None:
    shutil.copytree(POLICY.parent, tmp_path / "copy")
    (setting,) = re.findall(r"^\$ export (\w+)=(\S+)$", PAGE, re.MULTILINE)
    line, output = next(shown for shown in SHOWN if shown[0].startswith(example))

    ended = subprocess.run(
        [sys.executable, "-m", "placet", *shlex.split(line)],
        cwd=tmp_path / "copy",
        env={**os.environ, setting[0]: setting[1]},
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout == output


def test_what_a_file_holds_is_made_visible(place: Path) -> None:
    write(place, "\n['\\u001b[31m']\n".replace("'", '"'))

    assert "\x1b" not in do("policy", "check").out


# --- explain ----------------------------------------------------------------------------------


def test_explain_says_in_json_which_rules_match_and_decide(place: Path) -> None:
    found = explain("issue_refund", order="A-1", amount=1500).document

    assert (found["ruling"], found["rule"]) == ("deny", "policy:embargo")
    rules = {each["rule"]: each for each in found["rules"]}
    assert [name for name, each in rules.items() if each["decides"]] == ["embargo"]
    assert rules["refunds abroad"]["matches"]
    assert rules["embargo"]["doubts"] == ["country is null, which `in` cannot be asked of"]
    assert set(found) == {"ruling", "rule", "reason", "approvers", "rules", "lines"}


def test_explain_rules_on_what_cannot_be_read_and_refuses_what_does_not_fit(place: Path) -> None:
    unreadable = do("policy", "explain", "shell", "--arguments", "{", "--json")
    unfit = do("policy", "explain", "shell", "--arguments", '{"comand": "ls"}', "--json")

    assert unreadable.document["ruling"] == "deny"
    assert (unfit.code, unfit.error["code"]) == (2, "invalid_arguments")


def test_explain_names_the_tools_there_are(place: Path) -> None:
    ended = do("policy", "explain", "nothing", "--arguments", "{}", "--json")

    assert (ended.code, ended.error["code"]) == (2, "unknown_tool")
    assert "issue_refund" in ended.error["hint"]


def test_explain_says_where_a_broken_file_is_broken(place: Path) -> None:
    write(place, "rulez = 1\n")
    ended = explain("order_status", order="A-1")

    assert (ended.code, ended.error["code"]) == (6, "policy_broken")
    assert "placet.policy.toml:2: There is no key 'rulez'" in ended.error["message"]


def test_explain_without_a_file_gives_the_tools_declaration(place: Path) -> None:
    (place / "placet.policy.toml").unlink()
    found = explain("issue_refund", order="A-1", amount=5).document

    assert (found["rule"], found["approvers"], found["rules"]) == (
        "tool:issue_refund",
        ["zoe"],
        [],
    )


def test_explain_asks_whose_tool_it_is_where_several_have_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Agent(name="other", model=ScriptedModel([]), tools=[policy_desk.order_status])
    boss = Agent(name="boss", model=ScriptedModel([]), tools=[other])
    monkeypatch.setattr(policy_desk, "desk", [policy_desk.desk, boss])
    write(place, '[[rule]]\nname = "x"\nruling = "deny"\nagents = ["boss"]\n')

    unclear = explain("order_status", order="A-1")
    under = explain("order_status", "--agent", "other", order="A-1")

    assert (unclear.code, unclear.error["code"]) == (2, "which_agent")
    assert under.document["ruling"] == "deny"
    assert explain("order_status", "--agent", "desk", order="A-1").document["ruling"] == "allow"


def test_explain_looks_at_the_record_of_the_session_that_is_named(
    place: Path,
) -> None:
    first = "first_of_its_kind = true\n"
    write(place, f'[[rule]]\nname = "x"\nruling = "ask"\ntools = ["send_mail"]\n{first}')
    sent = call("send_mail", to=["kim@example.com"], text="Hello")
    agent = Agent(
        name="desk", model=ScriptedModel([sent, say("ok")]), tools=[policy_desk.send_mail]
    )
    with Desk(place, (), agent=agent) as desk:
        assert desk.start(session="s").stop == "final"

    mail = {"to": ["kim@example.com"], "text": "Hello"}
    assert explain("send_mail", "--session", "s", **mail).document["ruling"] == "allow"
    assert explain("send_mail", "--session", "t", **mail).document["ruling"] == "ask"


# --- test -------------------------------------------------------------------------------------


def test_a_case_that_is_ruled_otherwise_is_told_with_all_that_is_unlike(place: Path) -> None:
    (place / "wrong.toml").write_text(
        '[[case]]\nname = "wrong"\ntool = "issue_refund"\n'
        'arguments = {order = "A-1", amount = 200, country = "US"}\n'
        'expect = "deny"\nrule = "embargo"\napprovers = ["ana"]\n',
        encoding="utf-8",
    )
    ended = do("policy", "test", "wrong.toml")

    assert ended.code == 1
    assert ended.out == (
        "FAILED  wrong (line 1): expected deny, and it is ask; expected the rule embargo to decide,"
        " and it is none; expected ana to be asked, and it is ana, bo, cy\n"
        "1 case, 1 not as expected\n"
    )
    assert do("policy", "test", "wrong.toml", "--json").document["ok"] is False


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "wrong.toml:1: There is no case in it"),
        ('[[case]]\ntool = "shell"\narguments = {}\nexpect = "maybe"', "wrong.toml:4: expect must"),
        ('[[case]]\ntool = "shell"\nexpect = "ask"', "wrong.toml:1: A case has either arguments"),
        (
            '[[case]]\ntool = "shell"\narguments = {at = 2027-01-01}\nexpect = "ask"',
            "wrong.toml:3: arguments are no JSON",
        ),
        (
            '[[case]]\ntool = "shell"\nargs = {}\narguments = {}\nexpect = "ask"',
            "wrong.toml:3: There is no key 'args' in case.",
        ),
        ("[[case", "wrong.toml: It is no TOML"),
    ],
)
def test_a_file_of_cases_is_read_whole_or_not_at_all(place: Path, text: str, says: str) -> None:
    (place / "wrong.toml").write_text(text, encoding="utf-8")
    ended = do("policy", "test", "wrong.toml")

    assert ended.code == 2
    assert f"placet: {says}" in ended.err


# --- report -----------------------------------------------------------------------------------


@pytest.mark.conformance(28)
def test_the_report_says_what_rules_in_shadow_would_have_ruled(place: Path) -> None:
    asks = 'ruling = "ask"\ntools = ["pay"]\ndeadline = "2h"\n'
    write(
        place,
        '[surfaces]\npayments = "shadow"\n'
        f'[[rule]]\nname = "one"\n{asks}[[rule]]\nname = "two"\n{asks}'
        '[[rule]]\nname = "no"\nruling = "deny"\ntools = ["mail"]\n',
    )
    done: list[str] = []
    tools = [
        effect(done, approval="never", surface="payments"),
        effect(done, "mail", approval="always", surface="payments"),
        effect(done, "other", approval="never", surface="payments"),
    ]
    script = [
        calls(call("pay", what="a"), call("pay", what="b"), call("other", what="c")),
        call("mail", what="d"),
        say("ok"),
    ]
    policy = str(place / "placet.policy.toml")
    with Desk(place, script, tools, policy=policy) as desk:
        assert desk.start(session="s").stop == "approval_required"
    with Desk(place, [call("mail", what="d"), say("ok")], tools, policy=policy, approvers=()) as it:
        assert it.start(session="t", run_id="run_2").stop == "final"

    assert done == ["pay a", "pay b", "other c"]
    assert do("policy", "report").out == (
        "4 calls were ruled on in shadow\n"
        "no: would deny 2 times (mail 2); 1 asked anyway, 1 did not run anyway\n"
        "one: would ask 2 times (pay 2); people would have had 4h in all to decide\n"
        "two: would ask 2 times (pay 2); people would have had 4h in all to decide\n"
    )
    document = do("policy", "report", "--session", "t", "--json").document
    assert document["calls"] == 1
    assert document["rules"] == [
        {
            "rule": "no",
            "ruling": "deny",
            "times": 1,
            "tools": {"mail": 1},
            "asked_anyway": 0,
            "denied_anyway": 1,
            "asked_seconds": 0.0,
        }
    ]
    assert do("policy", "report", "--session", "u").code == 5


# --- doctor -----------------------------------------------------------------------------------


def test_the_doctor_says_how_the_policy_file_is(place: Path) -> None:
    def check() -> tuple[int, dict[str, str]]:
        ended = do("doctor", "--json")
        return ended.code, {each["name"]: each["health"] for each in ended.document["checks"]}

    code, checks = check()
    assert (code, checks["policy"]) == (0, "ok")
    assert "policy reach" in checks
    write(place, "nonsense = 1\n")
    code, checks = check()
    assert (code, checks["policy"]) == (1, "problem")
    assert "placet.policy.toml:2: There is no key 'nonsense'" in do("doctor").out
    (place / "placet.policy.toml").unlink()
    assert check()[1]["policy"] == "ok"


def test_whom_the_policy_names_is_an_approver_to_the_doctor(place: Path) -> None:
    tokens = "\n".join(f'{name} = "{sha256(name.encode()).hexdigest()}"' for name in ("mia", "cy"))
    with (place / "placet.toml").open("a", encoding="utf-8") as settings:
        settings.write(f"[approver_tokens]\n{tokens}\n")

    told = do("doctor").out

    unknown = "neither a token nor an account here: ana, bo, zoe"
    assert re.search(rf"warning +approvers +zoe, ana, bo, cy, mia; {unknown} ", told)
    assert re.search(r"ok +tokens +cy, mia\n", told)


@pytest.mark.promise("G1")
def test_a_run_under_a_broken_file_says_that_every_call_is_denied(place: Path) -> None:
    write(place, "rulez = 1\n")
    for command in (("run", "--session", "main", "refund"), ("worker", "--once")):
        ended = do(*command)
        assert "Every call is denied until the policy file is mended:" in ended.err
        assert "placet.policy.toml:2: There is no key 'rulez'" in ended.err
