"""e2b.*: E2B's own clients on our desktops."""

from invoke import Collection, Context

from deskyard.tasks.front import Unnoted, command


@command(
    changes=Unnoted.AUDITED,
    help={
        "port": "TCP port of the API and of the sandboxes (default: 3000; 0: a free one)",
        "host": "address to listen on (default: 127.0.0.1); one that others reach needs a certificate",
        "certificate": "file of the certificate's chain, to serve HTTPS",
        "certificate-key": "file of its private key",
        "domain": "E2B_DOMAIN of clients: api.NAME and each PORT-SANDBOX.NAME lead here, such as e2b.example.com:8443",
        "workspace": "workspace of a sandbox whose template names none (default: the only one that its key sees)",
        "tier": "the same of its tier (default: free)",
        "image": "image of new desktops (default: the workspace's)",
        "at-timeout": "what is done at the end of a sandbox's time: stop (default), destroy, nothing",
        "task-seconds": "sandboxes are desktops for a task, which go after so many seconds at the latest",
        "json": "print JSON",
    },
)
def serve(
    _: Context,
    port: str = "3000",
    host: str = "",
    certificate: str = "",
    certificate_key: str = "",
    domain: str = "",
    workspace: str = "",
    tier: str = "",
    image: str = "",
    at_timeout: str = "",
    task_seconds: str = "",
    json: bool = False,
) -> None:
    """Answer E2B's unmodified clients with the desktops of Mission Control, until ended; prints what they need."""
    from deskyard.control import e2b
    from deskyard.control.folder import Folder
    from deskyard.control.state import state

    served = {"port": port, "host": host, "certificate": certificate, "certificate-key": certificate_key}
    chosen = {"workspace": workspace, "tier": tier, "image": image, "at-timeout": at_timeout}
    chosen |= {"task-seconds": task_seconds, "domain": domain}
    e2b.serve({**served, **chosen}, state(Folder()), json)


ns = Collection("e2b")
ns.add_task(serve)
