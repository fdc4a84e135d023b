"""The newest conversation of a desktop as its page shows it, and what is new of it since it was shown last."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_MESSAGES = 50
# Of one document that Mission Control sends, and of one request of a page.
MOST_NEWS, MOST_REQUEST = 1 << 20, 8192


@dataclass(frozen=True)
class Talk:
    """A conversation, or None before anything was said; `messages` are by id, the oldest first."""

    conversation: str | None = None
    title: str = ""
    messages: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def news(self, before: "Talk | None") -> dict[str, Any]:
        """The document for who has `before`: ids of all messages, and those messages that are not the same there."""
        known = before.messages if before is not None else {}
        changed = [message for id, message in self.messages.items() if known.get(id) != message]
        return {
            "conversation": self.conversation,
            "title": self.title,
            "order": list(self.messages),
            "messages": changed,
        }

    def after(self, news: Any) -> "Talk":
        """The conversation by a document of news; raises `ValueError` for one that is none."""
        match news:
            case {"conversation": str() | None as id, "title": str(title), "order": list(order), "messages": list(new)}:
                known = {**self.messages, **{_id(message): message for message in new}}
                if len(order) <= MOST_MESSAGES and all(isinstance(each, str) and each in known for each in order):
                    return Talk(id, title, {each: known[each] for each in order})
        raise ValueError("is no news of a conversation")


def _id(message: Any) -> str:
    match message:
        case {"id": str(id)}:
            return id
    raise ValueError("is no message")
