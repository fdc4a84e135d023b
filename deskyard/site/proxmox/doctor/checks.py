"""Checks of a cluster: its version, token, nodes, storages, ids and room. Each check is a pure function."""

from collections.abc import Iterable, Iterator, Mapping

from deskyard.model.proxmox import Cluster
from deskyard.model.site import Site
from deskyard.plan.proxmox.view import IMAGE_POOLS, TRIAL_POOLS, WORKSPACE_POOLS
from deskyard.site.finding import Finding, error, ok, warning
from deskyard.site.proxmox import listing, templates
from deskyard.site.proxmox.doctor import privileges
from deskyard.site.proxmox.doctor.facts import Facts
from deskyard.site.proxmox.estate import Row

OLDEST = (8, 4)
# Types of storage that make a clone which shares its template's blocks (pve-docs, chapter "Storage").
CLONING = frozenset({"btrfs", "cifs", "dir", "lvmthin", "nfs", "rbd", "zfs", "zfspool"})
# Types that can be set to a content at all (`plugindata` of each plugin, pve-storage 0c56bad8). To one of content
# `import` that has no files nothing can be uploaded. A type of somebody else's plugin is believed.
FILES = frozenset({"btrfs", "cephfs", "cifs", "dir", "nfs"})
HOLDING = {
    "import": FILES,
    "images": (FILES - {"cephfs"}) | {"iscsi", "iscsidirect", "lvm", "lvmthin", "rbd", "zfs", "zfspool"},
    "backup": FILES | {"pbs"},
}
KINDS = frozenset({"esxi"}).union(*HOLDING.values())
MOST_SKEW_SECONDS = 10
SHOWN = 8
MIB, GIB = 1024**2, 1024**3


def version(facts: Facts, _: Site) -> Iterator[Finding]:
    """The API has what is used: content `import` and uploads of it came with 8.4."""
    if facts.release >= OLDEST:
        yield ok("version", f"Proxmox VE {facts.version}")
        return
    needed = ".".join(map(str, OLDEST))
    why = "older versions cannot take disk images through the API"
    yield error("version", f"Proxmox VE {facts.version or 'of unknown version'}", why, f"upgrade to {needed} or later")


def token(facts: Facts, site: Site) -> Iterator[Finding]:
    """The token has the privileges of the table, and no others."""
    cluster, release = site.cluster, facts.release
    user = facts.token.partition("!")[0]
    missing = privileges.missing(cluster, release, facts.permissions)
    surplus = privileges.surplus(cluster, release, facts.permissions)
    if missing:
        what = f"token {facts.token} lacks {_some(f'{name} on {path} (to {why})' for path, name, why in missing)}"
        paths = {path for path, _, _ in missing}
        lines = "\n".join(privileges.commands(cluster, release, user, paths))
        yield error("token_privileges", what, "what it lacks will fail halfway, with 403", lines)
    else:
        yield ok("token_privileges", f"token {facts.token} has what is needed")
    if surplus:
        what = f"token {facts.token} also has {_some(f'{name} on {path}' for path, name in surplus)}"
        why = "whoever steals the token has it too"
        mend = (
            f"pveum user token permissions {user} {facts.token.partition('!')[2]}   # then: pveum acl delete PATH ..."
        )
        yield warning("token_surplus", what, why, mend)
    else:
        yield ok("token_surplus", f"token {facts.token} has nothing else")


def quorum(facts: Facts, _: Site) -> Iterator[Finding]:
    """The cluster can be written to."""
    clusters = [row for row in facts.status if row.get("type") == "cluster"]
    if all(int(row.get("quorate") or 0) for row in clusters):
        yield ok("quorum", "the cluster has quorum" if clusters else "one node, no cluster")
    else:
        why = "without quorum nothing can be made, changed or started"
        yield error("quorum", "the cluster has no quorum", why, "bring nodes back, then: pvecm status")


def nodes(facts: Facts, site: Site) -> Iterator[Finding]:
    """The site's choice of nodes leads to nodes that are there and up."""
    estate, rule = facts.estate, site.cluster.nodes
    members = {*estate.online, *estate.offline}
    unknown = sorted({*rule.only, *rule.exclude} - members)
    down = [name for name in estate.chosen if name in estate.offline]
    up = [name for name in estate.chosen if name in estate.online]
    if unknown:
        mend = f"correct proxmox.nodes in the site's file; known: {', '.join(sorted(members)) or 'none'}"
        yield error("nodes", f"no such node: {', '.join(unknown)}", "a misspelt exclusion excludes nothing", mend)
    elif not up:
        yield error("nodes", "no chosen node is up", "nothing can run", "bring nodes back: pvecm nodes")
    elif down:
        why = "their desktops are down, and no new ones go there"
        yield warning("nodes", f"down: {_some(down)}", why, f"bring them back, or exclude them: {', '.join(down)}")
    else:
        yield ok("nodes", f"{len(up)} nodes: {_some(up)}")


def clocks(facts: Facts, _: Site) -> Iterator[Finding]:
    """Sessions, certificates and the order of images depend on time."""
    mend = "on the node: systemctl enable --now chrony; chronyc tracking"
    if facts.ahead is not None and abs(facts.ahead) > MOST_SKEW_SECONDS:
        what = f"the API's clock is {facts.ahead:+.0f} s from this machine's"
        yield warning("clock", what, "sessions and certificates begin or end at the wrong moment", mend)
    else:
        yield ok("clock", "the API's clock agrees with this machine's")
    said = {name: node.ahead for name, node in facts.nodes.items() if node.ahead is not None}
    if said and max(said.values()) - min(said.values()) > MOST_SKEW_SECONDS:
        first, last = min(said, key=lambda name: said[name]), max(said, key=lambda name: said[name])
        what = f"{last} is {said[last] - said[first]:.0f} s ahead of {first}"
        yield warning("node_clocks", what, "a cluster whose clocks differ loses its quorum", mend)
    else:
        yield ok("node_clocks", "the nodes' clocks agree")


def storages(facts: Facts, site: Site) -> Iterator[Finding]:
    """Images can be uploaded, and templates be cloned as links, on every node."""
    chosen = site.cluster.storages
    yield from _storage(facts, "storage_images", chosen.images, "import")
    yield from _storage(facts, "storage_disks", chosen.disks, "images")
    if chosen.backups is not None:
        yield from _storage(facts, "storage_backups", chosen.backups, "backup")
    kinds = {
        str(row.get("type"))
        for node in facts.nodes.values()
        for row in node.storage
        if row.get("storage") == chosen.disks
    }
    if chosen.of_templates != chosen.disks:
        what = f"templates are on {chosen.of_templates}, disks on {chosen.disks}"
        mend = "leave proxmox.storages.templates out of the site's file"
        yield error("linked_clones", what, "a linked clone lies on the storage of its template", mend)
    elif kinds - CLONING:
        what = f"{chosen.disks} is of type {', '.join(sorted(kinds - CLONING))}"
        mend = f"choose a storage of one of: {', '.join(sorted(CLONING))}"
        yield error("linked_clones", what, "it cannot make linked clones: each desktop would copy its image", mend)
    else:
        shared = chosen.disks in facts.estate.shared
        yield ok(
            "linked_clones", f"{chosen.disks}: " + ("one template for all nodes" if shared else "one for each node")
        )


def _storage(facts: Facts, check: str, name: str, content: str) -> Iterator[Finding]:
    rows = {
        node: next((row for row in said.storage if row.get("storage") == name), None)
        for node, said in facts.nodes.items()
    }
    lacking = [node for node, row in rows.items() if row is None or not int(row.get("active") or 0)]
    without = [
        node for node, row in rows.items() if row is not None and content not in str(row.get("content")).split(",")
    ]
    kinds = {str(row.get("type")) for row in rows.values() if row is not None}
    if unfit := kinds & KINDS - HOLDING[content]:
        what, fit = f"storage {name} is of type {', '.join(sorted(unfit))}", ", ".join(sorted(HOLDING[content]))
        mend = f"name one of type {fit} in proxmox.{check.replace('_', 's.')} of the site's file"
        yield error(check, what, f"that type cannot hold content {content}", mend)
    elif lacking:
        mend = f"pvesm set {name} --disable 0 --nodes ''   # or correct proxmox.storages in the site's file"
        if "pbs" in kinds:
            mend = (
                f"pvesm status --storage {name}   # on that node: it says what is wrong with server or account\n{mend}"
            )
        yield error(check, f"storage {name} is not there or not active on {_some(lacking)}", "nothing fits there", mend)
    elif without:
        row = next(row for row in rows.values() if row is not None)
        # `none` stands alone.
        held = [word for word in str(row.get("content")).split(",") if word not in ("", "none")]
        mend = f"pvesm set {name} --content {','.join([*held, content])}"
        yield error(check, f"storage {name} does not take content {content}", "what is to lie there is refused", mend)
    else:
        yield ok(check, f"storage {name} takes {content} on every node")


def ids(facts: Facts, site: Site) -> Iterator[Finding]:
    """The range of ids is ours."""
    chosen = site.cluster.vm_ids
    ours = {template.vmid for template in templates.read(facts.resources, site.cluster)}
    foreign = sorted(
        int(row["vmid"])
        for row in facts.resources
        if "vmid" in row
        and row.get("lock") not in listing.BEING_MADE
        and chosen.first <= int(row["vmid"]) <= chosen.last
        and int(row["vmid"]) not in ours
        and not str(row.get("pool") or "").startswith((WORKSPACE_POOLS, IMAGE_POOLS, TRIAL_POOLS))
    )
    if foreign:
        what = f"machines of others have ids {_some(map(str, foreign))}"
        mend = "choose a free range with proxmox.vm_ids in the site's file"
        yield warning("vm_ids", what, "what is made by hand in this range takes ids that the Plan counts on", mend)
    else:
        yield ok("vm_ids", f"no machine of others has an id from {chosen.first} to {chosen.last}")


def tags(facts: Facts, _: Site) -> Iterator[Finding]:
    """Templates and desktops are known by tags, which the token must be free to set."""
    access = facts.options.get("user-tag-access") or {}
    allow = access.get("user-allow", "free") if isinstance(access, dict) else str(access).partition("user-allow=")[2]
    allow = str(allow or "free").partition(",")[0]
    if allow == "free":
        yield ok("tags", "tags can be set")
    else:
        why = "templates and desktops are known by their tags"
        mend = "pvesh set /cluster/options --user-tag-access user-allow=free"
        yield error("tags", f"tags are restricted (user-allow is {allow})", why, mend)


def room(facts: Facts, site: Site) -> Iterator[Finding]:
    """There is room for desktops, and quotas promise no more than there is."""
    cluster, smallest = site.cluster, min(tier.memory_mib for tier in site.all_tiers().values())
    up = [row for row in facts.resources if row.get("type") == "node" and row.get("node") in facts.nodes]
    free = {str(row["node"]): _free_mib(facts, str(row["node"]), int(row.get("maxmem") or 0)) for row in up}
    tight = [name for name, mib in free.items() if mib < smallest]
    text = ", ".join(f"{name} {mib // 1024} GiB" for name, mib in sorted(free.items())[:SHOWN])
    if free and len(tight) == len(free):
        mend = "end some desktops, choose smaller tiers, or add a node"
        yield warning("memory", f"no node has {smallest} MiB left: {text}", "no further desktop finds a place", mend)
    else:
        yield ok("memory", f"free: {text}")
    disks = {
        node: row
        for node, said in facts.nodes.items()
        for row in said.storage
        if row.get("storage") == cluster.storages.disks
    }
    full = [node for node, row in disks.items() if int(row.get("avail") or 0) * 10 < int(row.get("total") or 0)]
    if full:
        why = "disks of linked clones grow: a full storage stops the machines on it"
        mend = f"add space to storage {cluster.storages.disks}, or destroy workspaces"
        yield warning("disk_space", f"storage {cluster.storages.disks} is nine tenths full on {_some(full)}", why, mend)
    else:
        yield ok("disk_space", f"storage {cluster.storages.disks} has room")
    yield from _quotas(facts, cluster, disks)


def caps(facts: Facts, site: Site) -> Iterator[Finding]:
    """Every tier of the site's own fits on a node, and the cluster holds what it caps."""
    up = [row for row in facts.resources if row.get("type") == "node" and row.get("node") in facts.nodes]
    for name, tier in site.tiers.items():
        wanted = {"maxcpu": tier.vcpus, "maxmem": tier.memory_mib * MIB}
        if up and not any(all(int(row.get(key) or 0) >= value for key, value in wanted.items()) for row in up):
            what = f"no node has the {tier.vcpus} CPUs and {tier.memory_mib} MiB of tier {name}"
            yield warning("caps", what, "no desktop of it finds a place", "choose smaller tiers, or add a node")
    how = "processor time by cpulimit, the network by rate, disks by QEMU; the API lets nobody try"
    yield ok("caps", f"other caps of a tier are Proxmox VE's own: {how}")


def _quotas(facts: Facts, cluster: Cluster, disks: Mapping[str, Row]) -> Iterator[Finding]:
    up = [row for row in facts.resources if row.get("type") == "node" and row.get("node") in facts.nodes]
    shared = cluster.storages.disks in facts.estate.shared
    rows = list(disks.values())[: 1 if shared else None]
    have = {
        "vcpus": sum(int(row.get("maxcpu") or 0) for row in up),
        "memory_gib": sum(int(row.get("maxmem") or 0) for row in up) // GIB,
        "disk_gib": sum(int(row.get("total") or 0) for row in rows) // GIB,
    }
    granted = {name: getattr(cluster.quotas, name) for name in have}
    over = [f"{name} {granted[name]} of {have[name]}" for name in have if (granted[name] or 0) > have[name]]
    if over:
        mend = "lower proxmox.quotas in the site's file, or add nodes"
        yield warning("quotas", f"quotas grant more than there is: {', '.join(over)}", "who uses it all runs dry", mend)
    else:
        yield ok("quotas", "quotas grant no more than there is")


def _free_mib(facts: Facts, node: str, memory: int) -> int:
    """The memory that is left if every machine takes all that it was given."""
    given = sum(
        int(row.get("maxmem") or 0)
        for row in facts.resources
        if row.get("type") in ("qemu", "lxc") and row.get("node") == node and not int(row.get("template") or 0)
    )
    return (memory - given) // MIB


def _some(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more
