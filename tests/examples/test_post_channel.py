"""The channel of docs/how-to/operate.md, and a real worker of the command line that has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.post_office import PostOffice, post_office
from tests.tidy import ROOT


def placet(place: Path, office: PostOffice, *words: str) -> dict[str, Any]:
    """Run the command, and give its document."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    env = {
        **kept,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'examples'}",
        "DESK_URL": f"{office.url}/desk",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "placet", *words, "--json"],
        cwd=place,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.slow
@pytest.mark.promise("H3")
def test_a_worker_of_the_command_line_tells_through_the_channels_of_its_app(tmp_path: Path) -> None:
    with post_office() as office:
        app = ("--app", "post_channel:app")
        (request,) = placet(tmp_path, office, "run", *app, "go")["waiting"]
        office.modes["desk"] = "500"
        placet(tmp_path, office, "worker", *app, "--once")
        failed = placet(tmp_path, office, "show", request)
        assert failed["card"]["channels"][0]["delivered"] is False
        assert "500" in failed["card"]["channels"][0]["cause"]
        office.modes["desk"] = "ok"
        for _ in range(20):  # Until its pause is over.
            if not office.posts:
                placet(tmp_path, office, "worker", *app, "--once")
        told = placet(tmp_path, office, "show", request)
        assert told["card"]["channels"] == [{"channel": "desk", "delivered": True, "cause": ""}]
    (post,) = office.posts["desk"]
    assert post["about"] == f"approval {request} of refund: waiting"
    assert post["effect"] == "pays 12900 cents back for order A-42"
