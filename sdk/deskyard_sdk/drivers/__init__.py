"""Drivers for the computer-use tools of models' vendors: a tool's call goes in, the result to send back comes out.

They need nothing of the vendors at run time. Each has a twin for asyncio, on an `AsyncDesktop`.
"""

from deskyard_sdk.drivers.anthropic import Anthropic, AsyncAnthropic
from deskyard_sdk.drivers.gemini import AsyncGemini, Gemini
from deskyard_sdk.drivers.openai import AsyncOpenAI, OpenAI

__all__ = ["Anthropic", "AsyncAnthropic", "AsyncGemini", "AsyncOpenAI", "Gemini", "OpenAI"]
