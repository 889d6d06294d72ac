"""Model clients: one Protocol of two methods, and one module per way to reach a model.

A client translates and never judges. It does not parse arguments, retry, remember, or run anything;
the harness does the first three and the gate the last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from placet.agent.messages import ModelRequest, ModelTurn

OnText: TypeAlias = Callable[[str], None]
"""Told of each piece of a turn's visible text as it comes, on the event loop of the request."""


class ModelClient(Protocol):
    """A way to one model. What follows is the contract that the harness relies on.

    - `complete` depends on the request alone. Clients keep no conversation, so that any process can
      go on with a run, and a call that is made again after a crash is as good as the first.
    - Calls come back in the order proposed, with the model's own text as arguments, readable or
      not. Their ids are not empty and are distinct within the answer; an id that an earlier step
      used is left as it is. An unknown tool's name is passed on: the gate answers it.
    - A call that was cut off never reads as a whole one: its arguments stay unreadable (G4).
    - What a provider must be given back as it came is in the message's `provider_content`, and goes
      back to that provider; every other client goes by text and calls.
    - `on_text` only watches. The turn is the same with it and without, and it is given as text, in
      pieces, what becomes the message's text. Nothing that it raises reaches the turn: it is not
      called again, and the turn goes on. After a `ModelTrouble`, what it was told counts for
      nothing: the next try begins anew. The harness passes it only where somebody watches, so a
      client that does not know it serves everybody else.
    - Each failure is a `ModelTrouble` with one of these codes, and nothing else is raised save
      cancellation and `InvalidInput`, for a request that `check_request` refuses or that leaves
      the model nothing to answer:

      | code | retryable | means |
      |---|---|---|
      | `model_rate_limited` | yes | too many requests |
      | `model_unavailable` | yes | the server failed, broke off, or could not be reached |
      | `model_timeout` | yes | no whole answer within the time limit |
      | `model_malformed` | yes | an answer came that is none, or only the beginning of one |
      | `model_refused` | no | the server will not take this request: key, name, size |

      Where the server says how long to wait, `ids["retry_after_seconds"]` does.

    - A client tries once. Whether to try again, and when, is the runtime's to say.
    - A client can be used from several event loops and for several runs at once.
    """

    name: str
    """Names the model in records and errors."""

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelTurn:
        """Ask the model for its next message."""
        ...

    async def close(self) -> None:
        """Let go of whatever the client holds; may be called twice."""
        ...


__all__ = ["ModelClient", "OnText"]
