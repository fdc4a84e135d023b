"""Sends probes from inside a guest and answers what came of each."""

import json
from collections.abc import Iterable

from tests.support.workspaces import Running

SECONDS = 5

# Runs in the guest with nothing but its Python; all probes at once, so that a hundred time-outs take one.
SCRIPT = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def probe(target):
    host, port, source = target
    wire = socket.socket()
    wire.settimeout(%d)
    try:
        if source:
            wire.bind((source, 0))
        wire.connect((host, port))
        return "open"
    except ConnectionRefusedError:
        return "refused"
    except (TimeoutError, OSError) as error:
        return "timeout" if isinstance(error, TimeoutError) else "unreachable"
    finally:
        wire.close()

targets = json.loads(sys.argv[1])
with ThreadPoolExecutor(64) as pool:
    print(json.dumps(list(pool.map(probe, targets))))
"""


def connect(running: Running, host: str, targets: Iterable[tuple[str, int]], source: str = "") -> dict[str, str]:
    """Try TCP connections from a guest: `address:port` -> open, refused, timeout or unreachable."""
    listed = [(address, port, source) for address, port in targets]
    done = running.ssh(host, f"python3 - '{json.dumps(listed)}'", stdin=SCRIPT % SECONDS)
    answers: list[str] = json.loads(done.stdout)
    return {f"{address}:{port}": answer for (address, port, _), answer in zip(listed, answers, strict=True)}
