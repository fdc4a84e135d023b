"""e2b.*: E2B's own clients on our desktops."""

from invoke import Collection, Context

from deskyard.tasks.front import Unnoted, command, confirm, show


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
    from deskyard.control.e2b import serving
    from deskyard.control.ground.folder import Folder
    from deskyard.control.state import state

    served = {"port": port, "host": host, "certificate": certificate, "certificate-key": certificate_key}
    chosen = {"workspace": workspace, "tier": tier, "image": image, "at-timeout": at_timeout}
    chosen |= {"task-seconds": task_seconds, "domain": domain}
    serving.serve({**served, **chosen}, state(Folder()), json)


@command(
    changes=Unnoted.AUDITED,
    help={
        "domain": "E2B_DOMAIN of clients without its port, below the site's domain, such as e2b.localhost; none: say "
        "what is declared",
        "port": "TCP port that the proxy takes them at (default: 9444)",
        "workspace": "workspace of a sandbox whose template names none (default: the only one that its key sees)",
        "tier": "the same of its tier (default: free)",
        "image": "image of new desktops (default: the workspace's)",
        "at-timeout": "what is done at the end of a sandbox's time: stop (default), destroy, nothing",
        "task-seconds": "sandboxes are desktops for a task, which go after so many seconds at the latest",
        "remove": "answer them no more; desktops stay",
        "yes": "do not ask before it is removed",
        "json": "print JSON",
    },
)
def declare(
    _: Context,
    domain: str = "",
    port: int = 9444,
    workspace: str = "",
    tier: str = "",
    image: str = "",
    at_timeout: str = "",
    task_seconds: int = 0,
    remove: bool = False,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Have Mission Control answer E2B's clients from now on, as a process of its own; it begins anew for that."""
    from deskyard.control.control import Control
    from deskyard.control.e2b import declared

    control = Control()
    if remove:
        if not yes:
            question = "E2B's clients are answered no more, and no sandbox ends at its time. Type e2b to go on: "
            confirm("e2b.declare", "", "e2b", question, "add --yes: ./inv e2b.declare --remove --yes")
        removed = control.withdraw_e2b()
        show({"removed": removed}, as_json=json, text="removed" if removed else "nothing was declared")
        return
    if not domain:
        found = declared.kept(control.folder.e2b_declared)
    else:
        wanted = declared.Declared(domain.lower(), port, workspace, tier, image, at_timeout, task_seconds)
        control.declare_e2b(wanted)
        found = wanted
    text = f"export E2B_DOMAIN={found.authority}" if found else "E2B's clients are answered by e2b.serve alone"
    show({"declared": found.shown() if found else None}, as_json=json, text=text)


ns = Collection("e2b")
for task in (serve, declare):
    ns.add_task(task)
