"""How long a person waits for the fleet's page after a key, with many rows, in Chromium on a stand-in of the API."""

from pathlib import Path

from tests.web.browser import Browser, Keys
from tests.web.conftest import chromium
from tests.web.stand_in import running

WORKSPACES = 20
FILTER, ROUNDS = "desk-12", 5
# The browser tells only of what took as long as this, in steps of 8 ms; the rest was faster.
LEAST_MS = 16
OBSERVE = """
window.interactions = new Map();
new PerformanceObserver((list) => {
  for (const { interactionId, duration } of list.getEntries()) {
    if (interactionId) {
      interactions.set(interactionId, Math.max(duration, interactions.get(interactionId) ?? 0));
    }
  }
}).observe({ type: "event", durationThreshold: arguments[0], buffered: true });
window.before = performance.interactionCount;
"""


def interactions(pages: Path, desktops: int) -> list[float]:
    """Seconds from a key to the frame drawn after it: in the filter, down the rows, and to choose one."""
    with running(pages) as server, chromium() as driver:
        server.estate = server.estate.anew()
        server.estate.fill(WORKSPACES, desktops // WORKSPACES)
        browser = Browser(driver, server.url)
        browser.enrol(server)
        browser.open("/")
        browser.find(f"[role=grid][aria-rowcount='{desktops + 1}']")
        browser.script(OBSERVE, LEAST_MS)
        for _ in range(ROUNDS):
            browser.press("/")
            for key in (*FILTER, *[Keys.BACKSPACE] * len(FILTER), Keys.ESCAPE, *"jjjxkkx", Keys.ESCAPE):
                browser.press(key)
                browser.frame()
        count = int(browser.script("return performance.interactionCount - before"))
        slow = browser.script("return [...interactions.values()]")
    return [LEAST_MS / 1e3] * (count - len(slow)) + [duration / 1e3 for duration in slow]
