"""OpenAI's driver as a computer of the package `openai-agents`, for who lets its `Runner` run the loop."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from deskyard_sdk.drivers.driver import base64_of
from deskyard_sdk.drivers.openai import AsyncOpenAI, OpenAI

if TYPE_CHECKING:
    from agents import AsyncComputer, Computer

Keys = Sequence[str] | None


def computer(driver: OpenAI) -> "Computer":
    """The driver as a `Computer` for `ComputerTool`; what the desktop refuses is raised out of the run.

    The package `openai-agents` is needed for this alone.
    """
    from agents import Computer

    class DeskyardComputer(Hands, Computer):  # type: ignore[misc]
        """A desktop for programs without asyncio."""

        def screenshot(self) -> str:
            """The screen as it is, a PNG in base64."""
            return base64_of(driver.picture())

    driver.picture()
    return DeskyardComputer(driver)


async def async_computer(driver: AsyncOpenAI) -> "AsyncComputer":
    """The driver as an `AsyncComputer`, which holds up nothing else of its event loop."""
    from agents import AsyncComputer

    class AsyncDeskyardComputer(Hands, AsyncComputer):  # type: ignore[misc]
        """A desktop for asyncio."""

        async def screenshot(self) -> str:
            """The screen as it is, a PNG in base64."""
            return base64_of(await driver.picture())

    await driver.picture()
    return AsyncDeskyardComputer(driver)


def consent(driver: OpenAI | AsyncOpenAI) -> Callable[[Any], bool]:
    """An `on_safety_check` for `ComputerTool` that asks the driver's `confirm`; raises `DesktopError` for a no.

    A `ComputerTool` without any does unasked what the vendor wants a person to agree to.
    """
    asking = driver._twin if isinstance(driver, OpenAI) else driver

    def asked(check: Any) -> bool:
        asking.agreed(check.tool_call.to_dict())
        return True

    return asked


class Hands:
    """The actions of both kinds: each answers what its driver does, which is to be awaited for that for asyncio."""

    def __init__(self, driver: OpenAI | AsyncOpenAI) -> None:
        self._driver = driver

    @property
    def environment(self) -> str:
        """The nearest word that the package has for a Linux desktop; the older tool alone sends it."""
        return "ubuntu"

    @property
    def dimensions(self) -> tuple[int, int] | None:
        """The size of the picture that the model saw last; the older tool alone sends it."""
        return self._driver.size

    def click(self, x: int, y: int, button: str, *, keys: Keys = None) -> Any:
        """Click a button of the mouse, with keys held."""
        return self._driver.click({"type": "click", "x": x, "y": y, "button": button, "keys": keys})

    def double_click(self, x: int, y: int, *, keys: Keys = None) -> Any:
        """Click twice, with keys held."""
        return self._driver.double_click({"type": "double_click", "x": x, "y": y, "keys": keys})

    def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int, *, keys: Keys = None) -> Any:
        """Turn the wheel by so many pixels, with keys held."""
        turned = {"scroll_x": scroll_x, "scroll_y": scroll_y}
        return self._driver.scroll({"type": "scroll", "x": x, "y": y, "keys": keys, **turned})

    def type(self, text: str) -> Any:
        """Type a text."""
        return self._driver.type({"type": "type", "text": text})

    def wait(self) -> Any:
        """Wait a moment, and until the screen is at rest."""
        return self._driver.wait({"type": "wait"})

    def move(self, x: int, y: int, *, keys: Keys = None) -> Any:
        """Move the pointer, with keys held."""
        return self._driver.move({"type": "move", "x": x, "y": y, "keys": keys})

    def keypress(self, keys: Sequence[str]) -> Any:
        """Press keys together."""
        return self._driver.keypress({"type": "keypress", "keys": list(keys)})

    def drag(self, path: Sequence[tuple[int, int]], *, keys: Keys = None) -> Any:
        """Drag along places, with keys held."""
        places = [{"x": x, "y": y} for x, y in path]
        return self._driver.drag({"type": "drag", "path": places, "keys": keys})
