"""What a repository is at, read from git's files and from no program of the repository's."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from placet.agent.builtin.repository import head_of
from placet.agent.builtin.workspace import Workspace

ONE, TWO = "1" * 40, "2" * 40


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "root/.git/HEAD", "ref: refs/heads/main\n")
    return tmp_path / "root"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_a_repository_there_is_no_head(tmp_path: Path) -> None:
    assert head_of(tmp_path) == ""


@pytest.mark.promise("G13")
def test_the_head_is_the_commit_and_the_branch(root: Path) -> None:
    assert head_of(root) == "no commit on refs/heads/main"
    write(root / ".git/packed-refs", f"# pack-refs with: peeled\n{ONE} refs/heads/main\n^{TWO}\n")
    assert head_of(root) == f"{ONE} on refs/heads/main"
    write(root / ".git/refs/heads/main", f"{TWO}\n")
    assert head_of(root) == f"{TWO} on refs/heads/main"
    write(root / ".git/HEAD", f"{ONE}\n")
    assert head_of(root) == f"{ONE} detached"


def test_a_directory_below_is_of_the_same_repository(root: Path) -> None:
    write(root / ".git/refs/heads/main", ONE)
    (root / "in/deep").mkdir(parents=True)
    head = Workspace(root / "in/deep").bash().declaration.environment
    assert head is not None
    assert head({"command": "true", "timeout_seconds": 9}) == f"{ONE} on refs/heads/main"


def test_a_worktree_has_its_own_head_and_the_refs_of_all(root: Path) -> None:
    tree = root.parent / "tree"
    own = root / ".git/worktrees/tree"
    write(tree / ".git", f"gitdir: {own}\n")
    write(own / "HEAD", "ref: refs/heads/topic\n")
    write(own / "commondir", "../..\n")
    write(root / ".git/refs/heads/topic", f"{TWO}\n")
    assert head_of(tree) == f"{TWO} on refs/heads/topic"
    write(tree / ".git", "gitdir: ../root/.git/worktrees/tree\n")
    assert head_of(tree) == f"{TWO} on refs/heads/topic"


def test_refs_in_tables_are_told_by_their_names(root: Path) -> None:
    write(root / ".git/HEAD", "ref: refs/heads/.invalid\n")
    write(root / ".git/reftable/tables.list", "0x1-0x1-a.ref\n")
    first = head_of(root)
    write(root / ".git/reftable/tables.list", "0x1-0x2-b.ref\n")
    assert first != head_of(root)
    assert first.endswith(" refs in tables")


@pytest.mark.parametrize(
    "head",
    [
        "ref: ../../secret\n",
        "ref: refs/../../../secret\n",
        "ref: refs/heads/a b\n",
        "ref: /etc/passwd\n",
        "ref: \n",
        "",
        "x" * 100_000,
        "\0",
    ],
)
def test_a_head_that_is_none_is_unreadable_and_leads_nowhere(root: Path, head: str) -> None:
    write(root.parent / "secret", ONE)
    write(root / ".git/HEAD", head)
    assert head_of(root) == "unreadable"


def test_what_a_repository_holds_in_place_of_its_files_holds_nobody_up(root: Path) -> None:
    (root / ".git/HEAD").unlink()
    assert head_of(root) == "unreadable"
    os.mkfifo(root / ".git/HEAD")
    assert head_of(root) == "unreadable"
    (root / ".git/HEAD").unlink()
    (root / ".git/HEAD").symlink_to("/dev/zero")
    assert head_of(root) == "unreadable"
    (root / ".git/HEAD").unlink()
    write(root / ".git/HEAD", "ref: refs/heads/main")
    write(root / ".git/refs/heads/main", "ref: refs/heads/main")
    assert head_of(root) == "no commit on refs/heads/main"
    (root / ".git/refs/heads/main").unlink()
    (root / ".git/refs/heads/main").mkdir()
    assert head_of(root) == "no commit on refs/heads/main"
    shutil.rmtree(root / ".git")
    for pointer in ("gitdir: /dev", "gitdir: /nowhere", "something else", "gitdir: \0"):
        write(root / ".git", pointer)
        assert head_of(root) == "unreadable"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not there to compare with")
def test_git_itself_says_the_same(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        place = {"HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
        author = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *author, *words],
            cwd=tmp_path,
            env=place,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    git("init", "-q", "-b", "main")
    for packed in (False, True):
        git("commit", "-q", "--allow-empty", "-m", "one")
        if packed:
            git("pack-refs", "--all")
        assert head_of(tmp_path) == f"{git('rev-parse', 'HEAD')} on refs/heads/main"
    git("worktree", "add", "-q", "-b", "topic/one", "tree")
    assert head_of(tmp_path / "tree") == f"{git('rev-parse', 'HEAD')} on refs/heads/topic/one"
    git("checkout", "-q", "--detach")
    assert head_of(tmp_path) == f"{git('rev-parse', 'HEAD')} detached"
