"""Make docs/demo.txt, and the READMEs' part, from the demonstration as it really runs.

    python tools/demo_transcript.py            # writes
    python tools/demo_transcript.py --check    # exits 1 where a page would change

What differs from run to run (ids, digests, times, paths) is replaced; nothing else is.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("docs/demo.txt")
READMES = (Path("README.md"), Path("README.zh-CN.md"))
BEGIN, END = "<!-- demo:begin -->", "<!-- demo:end -->"

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z|\+00:00)")
_DIGEST = re.compile(r"\b(?:sha256:)?[0-9a-f]{64}\b")
_ID = re.compile(r"\b(rq|st|run)_[0-9a-z]{12,}\b")
_LASTED = re.compile(r"in \d+ s\.")


def played(place: Path) -> str:
    """Run the demonstration in a directory; give what it printed. Raises where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "placet", "demo", "--directory", str(place)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the demonstration failed:\n{done.stdout}{done.stderr}")
    return normalised(done.stdout, place)


def normalised(text: str, place: Path) -> str:
    """Replace what differs from run to run: ids are numbered in the order in which they appear."""
    text = text.replace(str(place.resolve()), "/tmp/placet-demo")
    text = _numbered(text, _DIGEST, lambda _, number: f"<digest {number}>")
    text = _numbered(text, _ID, lambda found, number: f"{found[1]}_{number}")
    text = _INSTANT.sub("<an instant>", text)
    return _LASTED.sub("in <some> s.", text)


def _numbered(
    text: str, pattern: re.Pattern[str], name: Callable[[re.Match[str], int], str]
) -> str:
    """Give each thing that matches a name with a number of its own, per prefix."""
    names: dict[str, str] = {}
    counts: dict[str, int] = {}

    def named(found: re.Match[str]) -> str:
        if found[0] not in names:
            kind = name(found, 0)
            counts[kind] = counts.get(kind, 0) + 1
            names[found[0]] = name(found, counts[kind])
        return names[found[0]]

    return pattern.sub(named, text)


def with_transcript(page: str, transcript: str) -> str:
    """Put the transcript between a page's markers; a page without them stays as it is."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return page
    return f"{before}{BEGIN}\n```text\n{transcript}```\n{END}{after}"


def pages(transcript: str) -> dict[Path, str]:
    """Give every page that holds the transcript, by its path from the root."""
    made = {PAGE: transcript}
    for path in READMES:
        if (ROOT / path).exists():
            made[path] = with_transcript((ROOT / path).read_text(encoding="utf-8"), transcript)
    return made


def main() -> int:
    """Write the pages, or check them; give the exit code."""
    parser = argparse.ArgumentParser(description="Make the pages that show the demonstration.")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a page differs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="placet-demo-") as place:
        made = pages(played(Path(place)))
    stale = 0
    for path, text in made.items():
        target = ROOT / path
        if target.exists() and target.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        print(f"{path}: {'differs' if given.check else 'written'}")
        if not given.check:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    return 1 if given.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
