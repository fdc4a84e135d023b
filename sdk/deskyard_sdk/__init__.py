"""A desktop of Deskyard for programs: `Desktop` to wait for answers, `AsyncDesktop` for asyncio."""

from deskyard_sdk.accessibility import Node, Nodes
from deskyard_sdk.desktop import AsyncDesktop
from deskyard_sdk.errors import DesktopError, PrivacyError, StoppedError
from deskyard_sdk.forms import (
    Acted,
    Application,
    Change,
    Drive,
    Entries,
    Entry,
    Event,
    Launched,
    Output,
    Picture,
    ProcessInfo,
    Result,
    Window,
)
from deskyard_sdk.processes import AsyncProcess
from deskyard_sdk.recordings import Recorded, Recording
from deskyard_sdk.streams import Stream
from deskyard_sdk.sync import Desktop, Process

__all__ = [
    "Acted",
    "Application",
    "AsyncDesktop",
    "AsyncProcess",
    "Change",
    "Desktop",
    "DesktopError",
    "Drive",
    "Entries",
    "Entry",
    "Event",
    "Launched",
    "Node",
    "Nodes",
    "Output",
    "Picture",
    "PrivacyError",
    "Process",
    "ProcessInfo",
    "Recorded",
    "Recording",
    "Result",
    "StoppedError",
    "Stream",
    "Window",
]
