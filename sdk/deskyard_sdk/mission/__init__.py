"""Mission Control for programs: `MissionControl` to wait for answers, `AsyncMissionControl` for asyncio."""

from deskyard_sdk.mission.client import AsyncMissionControl, Scope
from deskyard_sdk.mission.forms import (
    Alert,
    Approval,
    Claimed,
    Conversation,
    DesktopState,
    Fleet,
    LogLine,
    Message,
    Moment,
    News,
    Operation,
    Question,
    QuestionOption,
    Seat,
    Sent,
    Tool,
    Workspace,
)
from deskyard_sdk.mission.sync import MissionControl

__all__ = [
    "Alert",
    "Approval",
    "AsyncMissionControl",
    "Claimed",
    "Conversation",
    "DesktopState",
    "Fleet",
    "LogLine",
    "Message",
    "MissionControl",
    "Moment",
    "News",
    "Operation",
    "Question",
    "QuestionOption",
    "Scope",
    "Seat",
    "Sent",
    "Tool",
    "Workspace",
]
