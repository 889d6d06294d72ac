"""A model server and a client of it, for every test of model clients."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from placet.agent.models.anthropic import AnthropicModel
from placet.agent.models.openai import OpenAIModel
from tests.agent.wire import KEY, propose
from tests.servers.model_server import ModelServer


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(propose, api_key=KEY) as made:
        yield made
    assert made.errors == []


@pytest.fixture
def model(server: ModelServer) -> OpenAIModel:
    return OpenAIModel("gpt-test", base_url=server.base_url, api_key=KEY)


@pytest.fixture
def claude(server: ModelServer) -> AnthropicModel:
    return AnthropicModel("claude-test", base_url=server.origin, api_key=KEY)
