"""The agent of the workbench at work: its keys as an owner's are delivered, and a model on the host that it asks."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deskyard.desktop.key_delivery import request
from deskyard.guest import keys as key_program
from deskyard.host.command import run
from deskyard.lab.desk import DESK
from deskyard.plan import key_file
from deskyard.site import guest_program
from tests.catalogue.workbench import Workbench
from tests.support import model_server

MODEL_PORT, MODEL_LOG = 18555, "/root/model.log"
CONFIGURATION = "home/agent/.openclaw/openclaw.json"
SERVICE = "agent-openclaw.service"
# `openclaw health` is content with a gateway that is still starting, and one that starts may end again.
READY = """
. /etc/deskyard/agent-openclaw.env
ask() { curl --silent --fail --max-time 60 --output /dev/null "$@"; }
gateway=http://127.0.0.1:18789
ask $gateway/readyz && printf 'header = "Authorization: Bearer %s"' "$OPENCLAW_GATEWAY_TOKEN" |
  ask --config - --json '{"tool": "sessions_list", "args": {}}' $gateway/tools/invoke
"""
SETTINGS: dict[str, Any] = {
    "agents": {"defaults": {"model": {"primary": "local/tester"}}},
    "models": {
        "providers": {
            "local": {
                "baseUrl": f"http://127.0.0.1:{MODEL_PORT}/v1",
                "api": "openai-completions",
                "apiKey": "${LOCAL_API_KEY}",
                "models": [{"id": "tester", "name": "tester", "input": ["text", "image"]}],
            }
        }
    },
}


def with_model(configuration: dict[str, Any]) -> dict[str, Any]:
    """OpenClaw's configuration as its owner changes it, to ask that model."""
    return {
        **configuration,
        **SETTINGS,
        "agents": {"defaults": {**configuration["agents"]["defaults"], **SETTINGS["agents"]["defaults"]}},
    }


class Agent:
    """OpenClaw as its owner has set it up."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    def configure(self) -> None:
        """Let it ask the model of the host."""
        path = self.bench.root / CONFIGURATION
        path.write_text(json.dumps(with_model(json.loads(path.read_text()))))
        self.bench.do(f"systemctl restart {SERVICE}")

    def have_model(self, key: str) -> None:
        """Run a model that answers who has this key, and no other."""
        (self.bench.root / "root/model_server.py").write_text(Path(model_server.__file__).read_text())
        self.bench.do(
            "systemctl stop model.service 2>/dev/null; systemctl reset-failed model.service 2>/dev/null; true"
        )
        program = f"python3 /root/model_server.py {MODEL_PORT} {key} {MODEL_LOG}"
        self.bench.do(f"rm -f {MODEL_LOG}; systemd-run --quiet --unit=model.service {program}")

    def asked(self) -> list[str]:
        """What the model was asked, and whether by somebody whom it knows."""
        return self.bench.do(f"cat {MODEL_LOG}", check=False).stdout.splitlines()

    def bring(self, **keys: str) -> str:
        """Bring the desktop's keys in step, with the program that `workspace.up` runs."""
        source = guest_program.source(key_program)
        sending = f"{source}{json.dumps(request(text=key_file.text(keys)))}\n"
        remote = shlex.join(["python3", "-I", "-c", guest_program.START, str(len(source))])
        argv = ["ssh", "-F", str(self.bench.yard.ssh_config), DESK, remote]
        return str(json.loads(run(argv, timeout=60, stdin=sending).stdout)["done"])

    def started(self) -> str:
        """Stands for the run of the service."""
        return self.bench.do(f"systemctl show --property=InvocationID {SERVICE}").stdout

    def restarted_since(self, run: str) -> Callable[[], bool]:
        """Whether the service runs anew."""
        return lambda: self.started() != run

    def has(self, key: str) -> Callable[[], bool]:
        """Whether the running service has the key of the model, and its gateway lets its owner in."""
        return lambda: f"LOCAL_API_KEY={key}\n" in self.environment() and self.ready()

    def ready(self) -> bool:
        """Whether its gateway lets its owner in."""
        return self.bench.do(READY, user="agent", check=False, seconds=180).code == 0

    def environment(self) -> str:
        """What the running service has in its environment."""
        main = f"$(systemctl show --value --property=MainPID {SERVICE})"
        # A service that starts again has no process, or one that is gone in a moment.
        read = f"tr '\\0' '\\n' 2>/dev/null </proc/{main}/environ | grep ."
        return self.bench.do(f"timeout 60 sh -c {shlex.quote(f'until {read}; do sleep 0.2; done')} 2>/dev/null").stdout

    def do(self, task: str, seconds: float = 600) -> str:
        """What it answers to a task."""
        script = f"printf %s {shlex.quote(task)} | openclaw agent --agent main --message-file /dev/stdin"
        done = self.bench.do(script, user="agent", check=False, seconds=seconds)
        return done.stdout + done.stderr
