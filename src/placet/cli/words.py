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
    # How a request ended, or stands.
    "ended.lapsed": "its run does not wait for it any more; the question and the closed surface"
    " remain",
    "ended.late": "it has expired; {command}, or a worker, goes on",
    "ended.late_no": "it has expired, which is a no; {command}, or a worker, goes on",
    "ended.approved": "approved by {people}",
    "ended.then": "; {then}",
    "ended.not_begun": "it has not begun",
    "ended.rejected": "rejected by {person}: {reason}",
    "ended.newer": "a newer message took its run's place; it did not run",
    "ended.edited": "edited by {person}; the new version is {request}",
    "ended.edited_away": "edited by {person}; no new version was asked ({code}): {told}",
    "ended.changed": "changed meanwhile: {changed}; asked anew as {request}",
    "ended.changed_away": "changed meanwhile: {changed}; not asked anew",
    "ended.unreachable": "nobody could be told of it by the deadline ({channels}); it did not run",
    "ended.expired": "nobody decided by the deadline; it did not run",
    "ended.expired_approved": "approved by {people}, and not begun by the deadline; it did not run",
    "ended.cancelled": "its run was ended: {cause}",
    "ended.settled": "settled by {person}: {finding}",
    "ended.settled_for": "settled by {person}: {finding}: {detail}",
    "ended.answered": "{person} answered: {answer}",
    "ended.outcome": "it began, and its outcome is {code}",
    "ended.unknown": "it began, and nobody knows its outcome: {request}",
    "ended.under_way": "it has begun, and its outcome is not on record yet",
    "finding.happened": "happened",
    "finding.did_not_happen": "did-not-happen",
    "finding.abandoned": "abandoned",
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
    "ended.lapsed": "它的运行不再等待它；此问题和关闭的作用面仍然保留",
    "ended.late": "已过期；{command} 或 worker 会继续",
    "ended.late_no": "已过期，即为不批准；{command} 或 worker 会继续",
    "ended.approved": "{people} 已批准",
    "ended.then": "；{then}",
    "ended.not_begun": "尚未开始",
    "ended.rejected": "{person} 拒绝了：{reason}",
    "ended.newer": "更新的消息取代了它的运行；它没有执行",
    "ended.edited": "{person} 作了修改；新版本是 {request}",
    "ended.edited_away": "{person} 作了修改；没有询问新版本（{code}）：{told}",
    "ended.changed": "其间有变：{changed}；已作为 {request} 重新询问",
    "ended.changed_away": "其间有变：{changed}；没有重新询问",
    "ended.unreachable": "到截止时间无法通知任何人（{channels}）；它没有执行",
    "ended.expired": "到截止时间无人决定；它没有执行",
    "ended.expired_approved": "{people} 已批准，但到截止时间没有开始；它没有执行",
    "ended.cancelled": "它的运行被结束：{cause}",
    "ended.settled": "{person} 已核实：{finding}",
    "ended.settled_for": "{person} 已核实：{finding}：{detail}",
    "ended.answered": "{person} 答复：{answer}",
    "ended.outcome": "它开始了，结果为 {code}",
    "ended.unknown": "它开始了，无人知晓其结果：{request}",
    "ended.under_way": "它开始了，结果尚无记录",
    "finding.happened": "已发生",
    "finding.did_not_happen": "未发生",
    "finding.abandoned": "放弃",
}

WORDS: Mapping[Language, Mapping[str, str]] = {"en": _ENGLISH, "zh": _CHINESE}


def said(language: Language, key: str, **places: int | str) -> str:
    """Give fixed words, with names that are shown, numbers and instants in their places."""
    return WORDS[language][key].format(**places)
