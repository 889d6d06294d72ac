"""Model clients: one Protocol of two methods, and one module per way to reach a model.

A client translates and never judges. It does not parse arguments, retry, remember, or run anything;
the harness does the first three and the gate the last.
"""

from __future__ import annotations

from typing import Protocol

from placet.agent.messages import ModelRequest, ModelTurn


class ModelClient(Protocol):
    """A way to one model. What follows is the contract that the harness relies on.

    - `complete` depends on the request alone. Clients keep no conversation, so that any process can
      go on with a run, and a call that is made again after a crash is as good as the first.
    - Calls come back in the order proposed, with the model's own text as arguments, readable or
      not. Their ids are not empty and are distinct within the answer; an id that an earlier step
      used is left as it is. An unknown tool's name is passed on: the gate answers it.
    - Each failure is a `ModelTrouble` with one of these codes, and nothing else is raised save
      `InvalidInput` for a request that `check_request` refuses, and cancellation:

      | code | retryable | means |
      |---|---|---|
      | `model_rate_limited` | yes | too many requests; `ids["retry_after_seconds"]` where known |
      | `model_unavailable` | yes | the server failed, or could not be reached |
      | `model_timeout` | yes | no whole answer within the time limit |
      | `model_malformed` | yes | an answer came that is none |
      | `model_refused` | no | the server will not take this request: key, name, size |

    - A client tries once. Whether to try again, and when, is the runtime's to say.
    - A client can be used from several event loops and for several runs at once.
    """

    name: str
    """Names the model in records and errors."""

    async def complete(self, request: ModelRequest) -> ModelTurn:
        """Ask the model for its next message."""
        ...

    async def close(self) -> None:
        """Let go of whatever the client holds; may be called twice."""
        ...


__all__ = ["ModelClient"]
