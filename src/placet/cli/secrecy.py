"""What the calls of a session keep secret, kept out of what its agents say to a person (H2).

A model repeats what it was told, and what it proposed. Only what is known of calls is masked: what
merely looks like a secret may be what the person asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from placet.core.card import masking_for
from placet.core.card_words import Language
from placet.core.finding import is_joined
from placet.core.masking import Masking
from placet.runtime.engine import Engine
from placet.versions import Following

#: So much more than the longest secret is held back of a text in which no word ends.
MOST_HELD = 256


class SessionSecrets:
    """What the calls of one session keep secret, in all their versions that are on record."""

    def __init__(self, engine: Engine, session: str, *, language: Language) -> None:
        self._engine = engine
        self._session = session
        self._following = Following(engine, session)
        self._masking = Masking(language=language)

    def masking(self) -> Masking:
        """Give how they are masked now. Raises Conflict(`digest_mismatch`) and StoreTrouble."""
        if new := self._following.new():
            state = self._engine.store.session(self._engine.tenant, self._session)
            assert state is not None, "what is in the log of a session is in a session"
            language = self._masking.language
            known = masking_for({}, new, salt=state.salt, language=language).known
            masking = replace(self._masking, salt=state.salt)
            self._masking = replace(masking, known=masking.known.together_with(known))
        return self._masking


class Held:
    """Masks a text that comes in pieces as the whole of it would be masked, wherever it was cut.

    Of each text it asks at its beginning what is known. Where nothing is, nothing is held back.
    """

    def __init__(self, masking: Callable[[], Masking]) -> None:
        self._ask = masking
        self._masking: Masking | None = None
        self._held = ""

    def add(self, piece: str) -> str:
        """Give what can be shown now."""
        if self._masking is None:
            self._masking = self._ask()
        longest = self._masking.known.longest
        if not longest:
            return piece
        self._held += piece
        if len(self._held) < 2 * longest:
            return ""
        cut = self._cut(self._masking, longest)
        text, self._held = self._held[:cut], self._held[cut:]
        return self._masking.repeated(text)

    def end(self) -> str:
        """Give what was held back; the next piece begins another text."""
        masking, held = self._masking, self._held
        self._masking, self._held = None, ""
        return masking.repeated(held) if masking is not None else held

    def _cut(self, masking: Masking, longest: int) -> int:
        """Say how much can be shown: what is left could all be a secret that still comes.

        No secret, and no word, goes on from one side to the other.
        """
        held = self._held
        cut = len(held) - longest
        for start, end in masking.known.spans(held):
            if start < cut < end:
                cut = start
        least = max(0, cut - MOST_HELD)
        whole = cut
        while whole > least and is_joined(held, whole):
            whole -= 1
        return whole if whole > least or not least else cut
