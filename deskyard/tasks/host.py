"""Tasks of this machine."""

from dataclasses import asdict

from invoke import Collection, Context

from deskyard.tasks.front import Changes, Unnoted, command
from deskyard.tasks.front import show as show_state

BOOTS = {"kvm": "with KVM", "tcg": "emulated, ten to twenty times slower"}


@command(changes=Unnoted.LOOKS, help={"yes": "install missing system packages without asking (done by ./inv itself)"})
def prepare(_: Context, yes: bool = False) -> None:
    """Make sure this machine has what Deskyard needs; ./inv installs the packages before it comes here."""
    from deskyard.host.facts import require_programs

    require_programs()
    print("this machine has all it needs")


@command(
    changes=Changes("host.configure", shown=("site",), not_with=("check",)),
    help={"site": "name of the site whose host this machine is", "check": "only say what would change"},
)
def configure(_: Context, site: str = "local", check: bool = False) -> None:
    """Make this machine a libvirt host: packages, libvirtd, and rules that protect it from its workspaces."""
    from deskyard.site.files import read_site
    from deskyard.site.libvirt import configure as host_configure

    host_configure.configure(read_site(site), check=check)
    print("nothing was changed" if check else f"this machine is a host of site {site}")


@command(changes=Unnoted.LOOKS, default=True, help={"json": "print JSON"})
def show(_: Context, json: bool = False) -> None:
    """Show what this machine has: programs, memory, disk, how guests really boot, and which caps it cannot hold."""
    from deskyard.host.facts import host_state
    from deskyard.host.vm.accelerator import accelerator
    from deskyard.site.libvirt.limits import caps

    state, guests, lacking, untried = host_state(), accelerator("auto"), caps.not_held(), caps.not_tried()
    caps_lines = [f"cannot hold   {cap}: {reason} -> {caps.REMEDIES[cap]}" for cap, reason in lacking.items()]
    caps_lines += [f"not tried     {cap}: only root can" for cap in untried]
    lines = [
        f"services      {'systemd' if state.systemd else 'none: own libvirtd in a network namespace'}",
        f"guests boot   {BOOTS[guests]}{', though /dev/kvm is there' if guests == 'tcg' and state.kvm_device else ''}",
        f"cpus          {state.cpus}",
        f"memory        {state.memory_available_gib} GiB available",
        f"disk          {state.disk_free_gib} GiB free in /var/lib",
        f"missing       {', '.join(state.missing) or 'nothing'}",
        *(caps_lines or ["caps          all of a tier can be held"]),
    ]
    said = {"accelerator": guests, "caps_not_held": lacking, "caps_not_tried": untried}
    show_state({**asdict(state), **said}, as_json=json, text="\n".join(lines))


ns = Collection("host")
ns.add_task(configure)
ns.add_task(prepare)
ns.add_task(show)
