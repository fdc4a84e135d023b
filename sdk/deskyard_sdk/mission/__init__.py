"""Mission Control for programs: `MissionControl` to wait for answers, `AsyncMissionControl` for asyncio."""

from deskyard_sdk.mission.client import AsyncMissionControl
from deskyard_sdk.mission.forms import (
    Alert,
    Approval,
    Conversation,
    DesktopState,
    Fleet,
    LogLine,
    Message,
    News,
    Operation,
    Sent,
    Workspace,
)
from deskyard_sdk.mission.sync import MissionControl

__all__ = [
    "Alert",
    "Approval",
    "AsyncMissionControl",
    "Conversation",
    "DesktopState",
    "Fleet",
    "LogLine",
    "Message",
    "MissionControl",
    "News",
    "Operation",
    "Sent",
    "Workspace",
]
