"""The fixed words of what the command line says beside cards, in each of their languages."""

from __future__ import annotations

from collections.abc import Mapping

from placet.core.card_words import Language

_ENGLISH = {
    # The inbox, a request a line.
    "inbox.approval": "{tool}",
    "inbox.settlement": "settlement of {tool}",
    "inbox.question": "question of {tool}",
    "inbox.votes": "{count} of {quorum} approved",
    "inbox.until": "session {session}, until {deadline} UTC",
    "inbox.expired": "session {session}, expired at {deadline} UTC",
    "inbox.nothing": "Nothing waits.",
    "left.few": "too few are left: {quorum} must approve, and {people} may",
    "left.nobody": "nobody is left who may decide",
    # Under a card.
    "about.wanted": "wanted",
    "about.ended": "ended",
    "about.vote": "vote",
    "about.voted": "{person} at {at}, via {via}",
    "about.result": "result",
    "about.answers": "answer with one of:",
}

_CHINESE = {
    "inbox.approval": "{tool}",
    "inbox.settlement": "{tool} 的结果核实",
    "inbox.question": "{tool} 的提问",
    "inbox.votes": "{quorum} 人中已有 {count} 人批准",
    "inbox.until": "会话 {session}，截止 {deadline} UTC",
    "inbox.expired": "会话 {session}，已于 {deadline} UTC 过期",
    "inbox.nothing": "没有等待处理的请求。",
    "left.few": "可批准的人不足：需 {quorum} 人批准，只有 {people} 可以",
    "left.nobody": "已无人可以决定",
    "about.wanted": "期望答复",
    "about.ended": "结局",
    "about.vote": "投票",
    "about.voted": "{person}，{at}，经由 {via}",
    "about.result": "结果",
    "about.answers": "请用以下之一答复：",
}

WORDS: Mapping[Language, Mapping[str, str]] = {"en": _ENGLISH, "zh": _CHINESE}


def said(language: Language, key: str, **places: int | str) -> str:
    """Give fixed words, with names that are shown, numbers and instants in their places."""
    return WORDS[language][key].format(**places)
