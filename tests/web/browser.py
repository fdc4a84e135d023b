"""What a person does with the pages, by Selenium."""

import time
from collections.abc import Callable
from typing import Any

from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from tests.web.stand_in import COOKIE, StandIn

SECONDS = 60.0
# Each look has Chromium work: beside emulated machines, which want its processor, it is to be rarer. What takes longer
# is looked for less often.
PAUSE_SECONDS = 0.02
LONGER, MOST_PAUSE_SECONDS = 1.5, 0.2
# Chromium writes each answer that is an error to its console: those are the API's refusals, which tests ask for.
EXPECTED = "Failed to load resource"


class Browser:
    """The pages in Chromium; what they are to show is waited for so many seconds, and looked for after each pause."""

    def __init__(self, driver: Any, url: str, seconds: float = SECONDS, pause: float = PAUSE_SECONDS) -> None:
        self.driver = driver
        self.url = url
        self.seconds = seconds
        self.pause = pause

    def enrol(self, server: StandIn) -> None:
        """Sign in as Ada, by the link that enrols a passkey, unless that is done."""
        self.driver.get_log("browser")
        if server.sessions and self.driver.get_cookie(COOKIE):
            return
        self.open("/enrol#once")
        self.click("Enrol")
        self.wait("signed in", lambda: self.path() == "/")

    def open(self, path: str) -> None:
        self.driver.get("about:blank")
        self.driver.get(self.url + path)

    def path(self) -> str:
        found: str = self.driver.current_url.removeprefix(self.url)
        return found

    def text(self) -> str:
        """What the page shows; where another document takes its place meanwhile, what that shows."""
        end = time.monotonic() + self.seconds
        while True:
            try:
                found: str = self.driver.find_element(By.TAG_NAME, "body").text
            except WebDriverException:
                # The other document has no body until its first bytes are there, and Chromium says in several ways
                # that something is of neither.
                if time.monotonic() > end:
                    raise
                continue
            return found

    def script(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def frame(self) -> None:
        """Wait until what the page was given is drawn."""
        drawn = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));"
        self.driver.execute_async_script(drawn)

    def wait(self, what: str, ready: Callable[[], Any]) -> Any:
        """The first true answer of `ready`."""
        end, pause = time.monotonic() + self.seconds, self.pause
        while not (answer := ready()):
            if time.monotonic() > end:
                raise AssertionError(f"not within {self.seconds:.0f} s: {what}\n{self.path()}\n{self.text()}")
            time.sleep(pause)
            pause = max(self.pause, min(LONGER * pause, MOST_PAUSE_SECONDS))
        return answer

    def sees(self, text: str) -> None:
        """Wait until the page shows a text."""
        self.wait(f"the page shows {text!r}", lambda: text in self.text())

    def sees_no(self, text: str) -> None:
        self.wait(f"the page shows no {text!r}", lambda: text not in self.text())

    def find(self, selector: str) -> Any:
        """The first element that fits, waited for."""
        found = self.wait(f"there is {selector}", lambda: self.driver.find_elements(By.CSS_SELECTOR, selector))
        return found[0]

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return found

    def click(self, words: str) -> None:
        """Click the button or link that says just that, or else that says it among more, once it can be clicked."""
        path = f"//*[self::button or self::a][contains(normalize-space(), '{words}')]"

        def clicked() -> bool:
            # One look at the page: of two, the second may find what was drawn since the first.
            found = self.driver.find_elements(By.XPATH, path)
            try:
                exact = [each for each in found if " ".join(each.get_property("textContent").split()) == words]
                [each for each in exact or found if each.is_enabled()][-1].click()
            except (IndexError, StaleElementReferenceException):
                # Not there yet, or drawn anew since it was found: nothing was clicked.
                return False
            return True

        self.wait(f"there is {words!r} to click", clicked)

    def type(self, selector: str, text: str) -> None:
        found = self.find(selector)
        found.clear()
        found.send_keys(text)

    def choose(self, selector: str, value: str) -> None:
        Select(self.find(selector)).select_by_value(value)

    def press(self, *keys: str) -> None:
        """Keys, wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def complaints(self) -> list[str]:
        """What the console holds since it was asked last: of the policy, and errors that were thrown."""
        return [entry["message"] for entry in self.driver.get_log("browser") if EXPECTED not in entry["message"]]

    def complaints_are(self, expected: list[str]) -> None:
        """The console holds these complaints, and no other."""
        assert (said := self.complaints()) == expected, said


__all__ = ["Browser", "Keys"]
