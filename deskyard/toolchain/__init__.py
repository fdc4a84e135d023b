"""Finds or gets the programs that Deskyard drives."""

from deskyard.toolchain.finder import find, get, locate, show
from deskyard.toolchain.tool import TOOLS, FoundTool, Tool

__all__ = ["TOOLS", "FoundTool", "Tool", "find", "get", "locate", "show"]
