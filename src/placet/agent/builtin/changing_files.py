"""What `write` and `edit` do to a file, what they would do, and how it is taken back.

A file is put in its place as a whole, so that nobody ever sees half of one, and what stood there is
held against what was read. Texts are UTF-8; nothing here decides whether a change is wise.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Callable
from typing import Any

from placet.agent.builtin.confinement import (
    LARGEST_FILE_BYTES,
    Confinement,
    Content,
    Identity,
    OutOfReach,
    Place,
)
from placet.agent.builtin.diffs import unified
from placet.agent.builtin.text_edits import Edited, Unmatched, edited
from placet.core.display import visible
from placet.runtime.declarations import NotDone

#: What a fingerprint says of a file that is not there.
ABSENT = "absent"

#: A file is taken to be no text by a NUL in it, and is never shown.
_NUL = b"\0"


class CannotEdit(NotDone):
    """The edit does not fit the file; the text says why, and what to do."""


def fingerprint(files: Confinement, path: str) -> str:
    """Give the SHA-256 of the file, or `absent`, and where it is if a link leads there (G13)."""
    place = files.place(path)
    content = files.content(place)
    found = ABSENT if content is None else hashlib.sha256(content.data).hexdigest()
    return f"{found} at {place.real}" if place.is_linked else found


# --- writing --------------------------------------------------------------------------------------


def write_file(files: Confinement, path: str, *, content: str) -> str:
    """Put a text in a file, as a whole; raises NotDone where nothing was done."""
    place = _file_place(files, path)
    data = _encoded(place, content)
    before = files.content(place)
    _put(files, place, data, before)
    size = f"({len(data)} bytes)"
    if before is None:
        return f"Created {place.shown} {size}."
    same = " It held the same before." if before.data == data else ""
    return f"Replaced {place.shown} {size}.{same}"


def preview_write(files: Confinement, path: str, *, content: str) -> str:
    """Give the diff that writing would make."""
    place = _file_place(files, path)
    before = files.content(place)
    return _diff(place, before, content)


def written_by_write(content: str) -> bytes | None:
    """Give what `write` would put there; None where it cannot."""
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError:
        return None


def written_by_edit(before: bytes, *, old: str, new: str, replace_all: bool) -> bytes | None:
    """Give what `edit` would make of a file; None where it cannot."""
    try:
        text = before.decode("utf-8")
        return edited(text, old=old, new=new, replace_all=replace_all).text.encode("utf-8")
    except (Unmatched, UnicodeError):
        return None


def is_written(files: Confinement, path: str, *, content: str) -> bool:
    """Say whether the file holds just that text."""
    place = _file_place(files, path)
    found = files.content(place)
    return found is not None and found.data == _encoded(place, content)


# --- editing --------------------------------------------------------------------------------------


def edit_file(
    files: Confinement, path: str, *, old: str, new: str, replace_all: bool = False
) -> str:
    """Put a text in the place of another in a file; raises NotDone where nothing was done."""
    place = _file_place(files, path)
    before = _existing(files, place)
    done = _edited(place, before, old=old, new=new, replace_all=replace_all)
    _put(files, place, _encoded(place, done.text), before)
    lines = ", ".join(map(str, done.lines[:10])) + (", …" if len(done.lines) > 10 else "")
    where = f"line{'s' if len(done.lines) > 1 else ''} {lines}"
    how = "" if done.found == "exact" else f" It was found with other {done.found}."
    return f"Edited {place.shown} at {where}.{how}"


def preview_edit(
    files: Confinement, path: str, *, old: str, new: str, replace_all: bool = False
) -> str:
    """Give the diff that editing would make, or why it cannot be made."""
    try:
        place = _file_place(files, path)
        before = _existing(files, place)
        done = _edited(place, before, old=old, new=new, replace_all=replace_all)
    except NotDone as error:
        return f"This edit cannot be made as things stand, and would change nothing: {error}"
    return _diff(place, before, done.text)


def _existing(files: Confinement, place: Place) -> Content:
    content = files.content(place)
    if content is None:
        raise CannotEdit(f"{place.shown}: there is no such file. Use write to make one.")
    return content


def _edited(place: Place, before: Content, *, old: str, new: str, replace_all: bool) -> Edited:
    text = _decoded(before)
    if text is None:
        raise CannotEdit(f"{place.shown} is no text in UTF-8, and is not edited.")
    try:
        return edited(text, old=old, new=new, replace_all=replace_all)
    except Unmatched as error:
        raise CannotEdit(f"{place.shown}: {error}") from None


# --- taking back ----------------------------------------------------------------------------------


def snapshot(files: Confinement, path: str) -> str:
    """Take down what is at a path, as JSON, so that `restore` can bring just that back (D8)."""
    place = _file_place(files, path)
    content = files.content(place)
    kept: dict[str, Any] = {"parts": place.parts}
    if content is None:
        kept |= {"absent": True, "made": files.missing(place)}
    else:
        data = base64.b64encode(content.data).decode("ascii")
        kept |= {"absent": False, "mode": content.identity.mode, "content": data}
    return json.dumps(kept)


def restore(
    files: Confinement, taken: str, *, written: Callable[[bytes], bytes | None] | None = None
) -> None:
    """Bring back what a snapshot holds: content and mode, or that nothing was there (D8).

    It goes where the snapshot was taken, and through no link that was made since. `written` gives,
    of what was there before, what the call would have put there: where the file holds neither, it
    is somebody else's by now, and stays. Raises NotDone where it could not, and ValueError for
    what is no snapshot.
    """
    try:
        kept = json.loads(taken)
        place = Place(parts=tuple(kept["parts"]), shown=visible("/".join(kept["parts"])))
        data = b"" if kept["absent"] else base64.b64decode(kept["content"], validate=True)
        made = tuple(kept["made"]) if kept["absent"] else ()
        mode = None if kept["absent"] else int(kept["mode"])
    except (KeyError, TypeError, binascii.Error, json.JSONDecodeError) as error:
        raise ValueError(f"This is no snapshot of a file: {error}.") from error
    names = (*place.parts, *(part for path in made for part in path.split("/")))
    if any(name in ("", ".", "..") or "/" in name for name in names):
        raise ValueError("This is no snapshot of a file: it leads elsewhere.")
    if written is not None:
        _still_ours(files, place, before=None if mode is None else data, written=written(data))
    if mode is None:
        files.remove(place, made=made)
        return
    with files.file(place) as file:
        over = None if file is None else os.fstat(file)
    files.put(place, data, over=None if over is None else Identity.of(over), mode=mode)


def _still_ours(
    files: Confinement, place: Place, *, before: bytes | None, written: bytes | None
) -> None:
    """Hold that nobody else has changed the file; raises NotDone."""
    found = files.content(place)
    now = None if found is None else found.data
    if now not in (before, written):
        raise NotDone(
            f"{place.shown} holds neither what it held before nor what was to be written: somebody"
            " else has changed it, and it was left as it is."
        )


# --- texts ----------------------------------------------------------------------------------------


def _file_place(files: Confinement, path: str) -> Place:
    place = files.place(path)
    if place.names_directory or not place.parts:
        raise OutOfReach(f"{place.shown} names a directory. Name a file.")
    return place


def _put(files: Confinement, place: Place, data: bytes, before: Content | None) -> None:
    """Put bytes where `before` was read; raises NotDone where nothing was done."""
    if before is None:
        files.put(place, data, over=None, mode=None)
        return
    mode = before.identity.mode & 0o777
    if not mode & 0o222:
        raise NotDone(f"{place.shown} is read-only.")
    files.put(place, data, over=before.identity, mode=mode)


def _encoded(place: Place, text: str) -> bytes:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotDone(f"{place.shown}: the text has no UTF-8: {error}.") from error
    if len(data) > LARGEST_FILE_BYTES:
        raise NotDone(
            f"{place.shown} would have {len(data)} bytes; the most are {LARGEST_FILE_BYTES}."
        )
    return data


def _decoded(content: Content) -> str | None:
    if _NUL in content.data:
        return None
    try:
        return content.data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _diff(place: Place, before: Content | None, after: str) -> str:
    """Give the diff of a file to a text, or its sizes where one of them cannot be shown."""
    old = None if before is None else _decoded(before)
    if before is not None and old is None:
        size = len(after.encode("utf-8", "replace"))
        return (
            f"{place.real}: the {len(before.data)} bytes there, which are no text in UTF-8,"
            f" would be replaced by {size} bytes."
        )
    return unified(old, after, path=place.real) or f"{place.real}: nothing would change."
