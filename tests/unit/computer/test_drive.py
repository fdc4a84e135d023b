"""The rule of one driver, without a screen."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from deskyard.computer.display.acting.drive import KEY_RELEASE, Drive, Hold

SHIFT = (KEY_RELEASE, 50)


def test_that_a_person_took_over_is_told_when_what_the_agent_held_is_up() -> None:
    done = list[object]()
    drive = Drive(5, 60, lambda kind, data: done.append(kind))
    drive.held = [Hold(SHIFT, "s1", 0)]
    drive.person_acts(done.append, "key", lambda: done.append("settled"))
    assert done == [[SHIFT], "settled", "person.took"]
    drive.person_leaves("quiet")
    drive.person_acts(done.append, "key", lambda: done.append("settled"))
    assert done[3:] == ["person.left", "person.took"], "there was nothing to wait for"


def test_person_who_goes_on_with_what_is_down_has_not_left() -> None:
    events = list[str]()
    drive = Drive(0, 60, lambda kind, data: events.append(kind))
    drive.person_acts(lambda releases: None, "button")
    drive.tick(lambda releases: None, lambda: True)
    assert (drive.driver, events) == ("person", ["person.took"])
    drive.tick(lambda releases: None, lambda: False)
    assert (drive.driver, events) == ("agent", ["person.took", "person.left"])


def test_wait_is_over_when_it_is_asked_again_and_finds_so() -> None:
    drive = Drive(5, 60, lambda kind, data: None)
    asked, over = threading.Event(), threading.Event()

    def is_over() -> bool:
        asked.set()
        return over.is_set()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(drive.wait, is_over)
        assert asked.wait(30)
        over.set()
        drive.look_again()
        assert waiting.result(30) is True
    began = time.monotonic()
    assert drive.wait(lambda: False, 0.05) is False and time.monotonic() - began >= 0.05
