"""Bounds how many machines go on from templates at once, by all tasks of this machine.

Until it is itself a guest wants a processor for itself: alone an emulated one is ready after a quarter of a minute, and
each of eight that began together on two processors after three minutes.
"""

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from deskyard.errors import HostError
from deskyard.host.lock import alone


@contextmanager
def turn() -> Iterator[None]:
    """Wait until fewer machines go on from a template than this machine has processors."""
    places = [f"template-start-{number}" for number in range(os.cpu_count() or 1)]
    random.shuffle(places)
    with ExitStack() as held:
        for place in places:
            try:
                held.enter_context(alone(place, at_once=True))
                break
            except HostError:
                continue
        else:
            held.enter_context(alone(places[0]))
        yield
