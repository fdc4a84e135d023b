"""Serves the provider to Pulumi's engine."""

import os
import sys
import threading
import time

from stacks.provider.untouched import leave_untouched

leave_untouched(os.environ)

from pulumi.provider.experimental.server import main  # noqa: E402

from deskyard.site.resource.cancellation import CANCELLATION  # noqa: E402
from stacks.provider.provider import VERSION, DeskyardProvider  # noqa: E402

LAST_WORDS_SECONDS = 3.0


def _end_with(parent: int) -> None:
    """An engine that is killed cannot end us: end when it is gone, so that nothing goes on behind the next run."""
    while os.getppid() == parent:
        time.sleep(1)
    CANCELLATION.cancel()
    time.sleep(LAST_WORDS_SECONDS)
    os._exit(1)


threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
main(sys.argv[1:], VERSION, DeskyardProvider())
