"""nginx as the peer: plain proxying of WebSockets over TLS, no session, no origin, no audit."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.gateway.support import wait_for
from tests.support.ports import free_ports

CONFIGURATION = """
daemon off;
pid {root}/nginx.pid;
error_log {root}/nginx.log warn;
worker_processes 1;
worker_rlimit_nofile 65000;
events {{ worker_connections 30000; }}
http {{
    access_log off;
    keepalive_requests 1000000;
    {temporary}
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {bundle};
        ssl_certificate_key {bundle};
        ssl_protocols TLSv1.2 TLSv1.3;
        location = /denied {{ return 403; }}
        location / {{
            proxy_pass http://{desktop};
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
            proxy_read_timeout 1h;
        }}
    }}
}}
"""
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@contextmanager
def nginx(root: Path, bundle: Path, desktop: str) -> Iterator[tuple[int, int] | None]:
    """Its port and the process that carries; nothing where nginx is not installed."""
    program = shutil.which("nginx")
    if program is None:
        yield None
        return
    port = free_ports(1)[0]
    folders = " ".join(f"{name}_temp_path {root}/{name};" for name in TEMPORARY)
    path = root / "nginx.conf"
    path.write_text(
        CONFIGURATION.format(root=root, port=port, bundle=bundle, desktop=desktop, temporary=folders)
        + f"user {'root' if os.geteuid() == 0 else ''};\n"
    )
    process = subprocess.Popen([program, "-e", f"{root}/nginx.log", "-p", str(root), "-c", str(path)])
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        worker = int(wait_for("nginx's worker", lambda: children.read_text().split())[0])
        yield port, worker
    finally:
        process.terminate()
        process.wait(10)
