"""Plays what was recorded: a folder of `desktop.recordings.download` as one page for a browser, or as a video."""

from deskyard_sdk.replay.page import write_page
from deskyard_sdk.replay.segments import Segment, load
from deskyard_sdk.replay.video import write_video

__all__ = ["Segment", "load", "write_page", "write_video"]
