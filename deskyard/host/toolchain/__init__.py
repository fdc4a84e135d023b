"""Finds or gets the programs that Deskyard drives."""

from deskyard.host.toolchain.finder import find, get, locate, show
from deskyard.host.toolchain.plugins import offer_plugins
from deskyard.host.toolchain.tool import BASIC, TEST_TOOLS, TOOLS, FoundTool, Tool

__all__ = ["BASIC", "TEST_TOOLS", "TOOLS", "FoundTool", "Tool", "find", "get", "locate", "offer_plugins", "show"]
