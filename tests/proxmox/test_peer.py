"""The peer behaves as Proxmox VE where Deskyard relies on it: what fakepve lacks, each with a test of its own."""

import base64
import hashlib
from typing import Any

import httpx
import pytest

from tests.support.pve import GIB, Capacity, Client, Peer
from tests.support.pve.asking import NODE, QCOW2, machine, refused, upload

# The API itself.


def test_only_who_trusts_its_authority_talks_to_it(peer: Peer, root: Client) -> None:
    assert root.ask("GET", "/version")["release"] == "9.0"
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{peer.endpoint}/api2/json/version", trust_env=False)


def test_without_a_login_nothing_is_answered(peer: Peer) -> None:
    with peer.client(token="deskyard@pve!no=00000000-0000-4000-8000-000000000000") as nobody:
        refused(nobody.get("/nodes"), 401, "")


def test_a_slash_at_the_end_of_a_path_changes_nothing(peer: Peer, root: Client) -> None:
    machine(root)
    assert root.finish("DELETE", f"{NODE}/100/") == "OK"
    assert peer.fake.left() == {}


def test_integers_and_booleans_of_a_configuration_are_numbers(root: Client) -> None:
    machine(root, cores=2, onboot=1)
    root.finish("POST", f"{NODE}/100/template")
    config = root.ask("GET", f"{NODE}/100/config")
    assert (config["cores"], config["onboot"], config["template"]) == (2, 1, 1)
    assert config["memory"] == "512"


def test_a_size_without_unit_is_in_bytes(peer: Peer, root: Client) -> None:
    peer.fake.faults.late_listings = 0
    machine(root)
    peer.fake.vm(100).config["scsi0"] = f"local-lvm:vm-100-disk-0,size={4 * GIB}"
    assert root.ask("GET", "/cluster/resources", type="vm")[0]["maxdisk"] == 4 * GIB


def test_the_next_free_id_is_free(root: Client) -> None:
    assert int(root.ask("GET", "/cluster/nextid")) == 100
    machine(root)
    assert int(root.ask("GET", "/cluster/nextid")) == 101
    refused(root.get("/cluster/nextid", params={"vmid": 100}), 400, "already exists")


def test_tags_and_protection_of_a_machine_are_kept_and_count(root: Client) -> None:
    machine(root, tags="b;a", protection=1)
    assert root.ask("GET", "/cluster/resources", type="vm")[0]["tags"] == "a;b"
    refused(root.delete(f"{NODE}/100"), 500, "protection mode enabled")
    root.ask("PUT", f"{NODE}/100/config", protection=0, tags="C")
    assert root.ask("GET", f"{NODE}/100/config")["tags"] == "c"
    assert root.finish("DELETE", f"{NODE}/100") == "OK"


# Nodes and storages.


def test_nodes_and_storages_say_what_they_hold(tmp_path_factory: pytest.TempPathFactory) -> None:
    capacity = Capacity(cpus=8, memory=32 * GIB)
    with Peer(tmp_path_factory.mktemp("peer"), nodes=3, capacity=capacity) as peer, peer.client() as root:
        machine(root, memory="2048")
        root.finish("POST", f"{NODE}/100/status/start")
        nodes = {item["node"]: item for item in root.ask("GET", "/cluster/resources", type="node")}
        assert {name: (item["maxcpu"], item["maxmem"], item["mem"]) for name, item in nodes.items()} == {
            "pve1": (8, 32 * GIB, 2 * GIB),
            "pve2": (8, 32 * GIB, 0),
            "pve3": (8, 32 * GIB, 0),
        }
        assert root.ask("GET", "/nodes/pve1/status")["memory"]["free"] == 30 * GIB
        status = root.ask("GET", "/nodes/pve1/storage/local-lvm/status")
        assert (status["total"], status["avail"]) == (200 * GIB, 196 * GIB)
        shown = {item["storage"]: item for item in root.ask("GET", "/cluster/resources", type="storage")}
        assert (shown["local-lvm"]["maxdisk"], shown["local-lvm"]["disk"]) == (200 * GIB, 4 * GIB)
        assert [item["name"] for item in root.ask("GET", "/cluster/status")] == ["fakecluster", "pve1", "pve2", "pve3"]


# Networks.


def zone(root: Client, kind: str = "vxlan", **options: Any) -> None:
    """A zone, configured."""
    needed = {"vxlan": {"peers": "192.0.2.11"}, "vlan": {"bridge": "vmbr1"}, "simple": {}}[kind]
    root.ask("POST", "/cluster/sdn/zones", type=kind, zone=kind, **{**needed, **options})


def test_a_network_is_there_when_it_is_applied_not_before(peer: Peer, root: Client) -> None:
    zone(root)
    root.ask("POST", "/cluster/sdn/vnets", vnet="dya", zone="vxlan", tag=100_000)
    new = root.ask("GET", "/cluster/sdn/vnets/dya", pending=1)
    assert (new["state"], new["pending"], "zone" in new) == ("new", {"zone": "vxlan", "tag": 100_000}, False)
    machine(root, net0="virtio,bridge=dya")
    assert root.finish("POST", f"{NODE}/100/status/start") == "bridge 'dya' does not exist"
    assert root.finish("PUT", "/cluster/sdn") == "OK"
    assert "state" not in root.ask("GET", "/cluster/sdn/vnets/dya", pending=1)
    assert root.finish("POST", f"{NODE}/100/status/start") == "OK"


def test_a_changed_and_a_removed_network_wait_to_be_applied(root: Client) -> None:
    zone(root)
    for name, tag in (("dya", 1), ("dyb", 2)):
        root.ask("POST", "/cluster/sdn/vnets", vnet=name, zone="vxlan", tag=tag)
    root.finish("PUT", "/cluster/sdn")
    root.ask("PUT", "/cluster/sdn/vnets/dya", tag=3)
    root.ask("DELETE", "/cluster/sdn/vnets/dyb/")
    shown = {vnet["vnet"]: vnet for vnet in root.ask("GET", "/cluster/sdn/vnets", pending=1)}
    assert (shown["dya"]["state"], shown["dya"]["tag"], shown["dya"]["pending"]) == ("changed", 1, {"tag": 3})
    assert shown["dyb"]["state"] == "deleted"
    assert [vnet["vnet"] for vnet in root.ask("GET", "/cluster/sdn/vnets", running=1)] == ["dya", "dyb"]
    root.finish("PUT", "/cluster/sdn")
    assert [vnet["tag"] for vnet in root.ask("GET", "/cluster/sdn/vnets", running=1)] == [3]


@pytest.mark.parametrize(
    ("kind", "tags", "reason"),
    [
        ("vxlan", ({},), "missing vxlan tag"),
        ("vxlan", ({"tag": 7}, {"tag": 7}), "already exist"),
        ("vlan", ({"tag": 4097},), "max value"),
        ("simple", ({"tag": 7},), "not allowed"),
    ],
)
def test_a_tag_that_its_zone_does_not_take_is_refused(
    root: Client, kind: str, tags: tuple[dict[str, int], ...], reason: str
) -> None:
    zone(root, kind)
    *good, bad = tags
    for number, tag in enumerate(good):
        root.ask("POST", "/cluster/sdn/vnets", vnet=f"dy{number}", zone=kind, **tag)
    refused(root.post("/cluster/sdn/vnets", data={"vnet": "dybad", "zone": kind, **bad}), 400, reason)
    refused(root.get("/cluster/sdn/vnets/dybad"), 500, "does not exist")


def test_a_zone_in_use_and_a_network_with_a_subnet_stay(root: Client) -> None:
    zone(root, "simple")
    root.ask("POST", "/cluster/sdn/vnets", vnet="dya", zone="simple")
    subnets = "/cluster/sdn/vnets/dya/subnets"
    root.ask("POST", subnets, subnet="10.99.1.0/24", type="subnet", gateway="10.99.1.1")
    refused(root.delete("/cluster/sdn/vnets/dya"), 400, "if subnets exists")
    root.ask("DELETE", f"{subnets}/simple-10.99.1.0-24")
    refused(root.delete("/cluster/sdn/zones/simple"), 500, "is used by vnet dya")
    root.ask("DELETE", "/cluster/sdn/vnets/dya")
    root.ask("DELETE", "/cluster/sdn/zones/simple")
    assert root.ask("GET", "/cluster/sdn/zones") == []


# Images and disks.


def test_a_disk_is_made_from_an_uploaded_image(root: Client) -> None:
    checksum = {"checksum": hashlib.sha256(QCOW2).hexdigest(), "checksum-algorithm": "sha256"}
    assert upload(root, **checksum).status_code == 200
    [item] = root.ask("GET", "/nodes/pve1/storage/local/content", content="import")
    assert (item["volid"], item["size"]) == ("local:import/desk.qcow2", len(QCOW2))
    machine(root, scsi0="local-lvm:0,import-from=local:import/desk.qcow2")
    assert root.ask("GET", f"{NODE}/100/config")["scsi0"] == "local-lvm:vm-100-disk-0,size=3G"


def test_an_upload_that_arrived_otherwise_is_refused_and_not_kept(root: Client) -> None:
    wrong = {"checksum": "0" * 64, "checksum-algorithm": "sha256"}
    upid = upload(root, **wrong).json()["data"]
    assert "checksum mismatch" in root.ask("GET", f"/nodes/pve1/tasks/{upid}/status")["exitstatus"]
    assert root.ask("GET", "/nodes/pve1/storage/local/content", content="import") == []
    refused(upload(root, filename="desk.exe"), 400, "wrong extension")


@pytest.mark.parametrize(
    ("drive", "reason"),
    [
        ("local-lvm:4,import-from=local:import/desk.qcow2", "requires special syntax"),
        ("local-lvm:0,import-from=local:iso/x.iso", "needs to be"),
    ],
)
def test_an_import_that_is_not_asked_for_properly_is_refused(root: Client, drive: str, reason: str) -> None:
    refused(root.post(NODE, data={"vmid": 100, "scsi0": drive}), 400, reason)


def test_an_import_of_an_image_that_is_not_there_fails_and_leaves_nothing(peer: Peer, root: Client) -> None:
    ended = root.finish("POST", NODE, vmid=100, scsi0="local-lvm:0,import-from=local:import/no.qcow2")
    assert "does not exist" in ended
    assert peer.fake.left() == {}


def test_disks_are_made_by_a_changed_configuration_too(peer: Peer, root: Client) -> None:
    machine(root)
    root.ask("PUT", f"{NODE}/100/config", scsi1="local-lvm:2", ide2="local-lvm:cloudinit")
    config = root.ask("GET", f"{NODE}/100/config")
    assert config["scsi1"] == "local-lvm:vm-100-disk-1,size=2G"
    assert "cloudinit" in config["ide2"] or "media=cdrom" in config["ide2"]
    assert len(peer.fake.left()["volumes"]) == 3


def test_a_disk_grows_and_never_shrinks(root: Client) -> None:
    machine(root)
    assert root.finish("PUT", f"{NODE}/100/resize", disk="scsi0", size="6G") == "OK"
    assert root.finish("PUT", f"{NODE}/100/resize", disk="scsi0", size="+1G") == "OK"
    assert "size=7G" in root.ask("GET", f"{NODE}/100/config")["scsi0"]
    assert "shrinking" in root.finish("PUT", f"{NODE}/100/resize", disk="scsi0", size="1G")


def test_a_template_stays_while_a_linked_clone_uses_it(peer: Peer, root: Client) -> None:
    machine(root)
    root.finish("POST", f"{NODE}/100/template")
    assert root.finish("POST", f"{NODE}/100/clone", newid=101) == "OK"
    assert "still in use" in root.finish("DELETE", f"{NODE}/100")
    for vmid in (101, 100):
        assert root.finish("DELETE", f"{NODE}/{vmid}") == "OK"
    assert peer.fake.left() == {}


# Firewalls, pools, permissions.


def test_options_rules_and_sets_of_a_machines_firewall_are_kept_and_go_with_it(peer: Peer, root: Client) -> None:
    machine(root)
    firewall = f"{NODE}/100/firewall"
    root.ask("PUT", f"{firewall}/options", enable=1, policy_in="DROP", ipfilter=1)
    root.ask("POST", f"{firewall}/ipset", name="ipfilter-net0")
    root.ask("POST", f"{firewall}/ipset/ipfilter-net0", cidr="10.99.1.20")
    root.ask("POST", f"{firewall}/rules", type="in", action="ACCEPT", proto="tcp", dport="22", source="10.99.1.1")
    assert root.ask("GET", f"{firewall}/options")["policy_in"] == "DROP"
    assert [member["cidr"] for member in root.ask("GET", f"{firewall}/ipset/ipfilter-net0")] == ["10.99.1.20"]
    assert [rule["dport"] for rule in root.ask("GET", f"{firewall}/rules")] == ["22"]
    assert peer.fake.left()["firewalls"] == {"100"}
    root.finish("DELETE", f"{NODE}/100")
    assert peer.fake.left() == {}


def test_a_pool_with_a_machine_stays(root: Client) -> None:
    root.ask("POST", "/pools", poolid="deskyard-a")
    machine(root, pool="deskyard-a")
    refused(root.delete("/pools", params={"poolid": "deskyard-a"}), 500, "is not empty")
    root.finish("DELETE", f"{NODE}/100")
    root.ask("DELETE", "/pools", poolid="deskyard-a")
    assert root.ask("GET", "/pools") == []


ROLE = (
    "VM.Allocate,VM.Clone,VM.Audit,VM.Config.Disk,VM.Config.Memory,VM.Config.Network,VM.Config.Options,"
    "VM.PowerMgmt,Datastore.AllocateSpace"
)


def test_a_token_does_what_its_pool_lets_it_do_and_nothing_else(peer: Peer, root: Client) -> None:
    root.ask("POST", "/pools", poolid="deskyard-a")
    machine(root, 100)
    root.ask("POST", "/access/roles", roleid="Deskyard", privs=ROLE)
    root.ask("POST", "/access/roles", roleid="Bridge", privs="SDN.Use")
    token = peer.fake.token()
    for path in ("/pool/deskyard-a", "/storage/local-lvm"):
        root.ask("PUT", "/access/acl", path=path, roles="Deskyard", users="deskyard@pve")
    with peer.client(token) as client:
        mine = {"vmid": 101, "pool": "deskyard-a", "scsi0": "local-lvm:1", "net0": "virtio,bridge=vmbr0"}
        refused(client.post(NODE, data=mine), 403, "/sdn/zones/localnetwork/vmbr0, SDN.Use")
        root.ask("PUT", "/access/acl", path="/sdn/zones/localnetwork", roles="Bridge", users="deskyard@pve")
        assert client.finish("POST", NODE, **mine) == "OK"
        assert client.finish("POST", f"{NODE}/101/status/start") == "OK"
        refused(client.get(f"{NODE}/100/config"), 403, "/vms/100, VM.Audit")
        refused(client.post(f"{NODE}/100/status/start"), 403, "VM.PowerMgmt")
        refused(client.post(NODE, data={"vmid": 102}), 403, "")
        refused(client.post("/cluster/sdn/zones", data={"type": "simple", "zone": "xx"}), 403, "SDN.Allocate")
        refused(upload(client), 403, "Datastore.AllocateTemplate")
        refused(client.post("/access/users", data={"userid": "x@pve"}), 403, "")
        assert [vm["vmid"] for vm in client.ask("GET", "/cluster/resources", type="vm")] == [101]


def test_a_separated_token_may_do_what_both_it_and_its_user_may(peer: Peer, root: Client) -> None:
    root.ask("POST", "/access/users", userid="deskyard@pve")
    made = root.ask("POST", "/access/users/deskyard@pve/token/one", privsep=1)
    root.ask("PUT", "/access/acl", path="/vms", roles="PVEAuditor", users="deskyard@pve")
    machine(root)
    with peer.client(f"{made['full-tokenid']}={made['value']}") as client:
        refused(client.get(f"{NODE}/100/config"), 403, "VM.Audit")
        root.ask("PUT", "/access/acl", path="/", roles="Administrator", tokens=made["full-tokenid"])
        assert client.ask("GET", f"{NODE}/100/config")["name"] == "vm100"
        refused(client.delete(f"{NODE}/100"), 403, "VM.Allocate")
        assert set(client.ask("GET", "/access/permissions", path="/vms/100")["/vms/100"]) >= {"VM.Audit"}
    root.ask("DELETE", "/access/users/deskyard@pve")
    assert {grant["ugid"] for grant in root.ask("GET", "/access/acl")} == set()


def test_a_deeper_grant_replaces_what_would_be_inherited(peer: Peer, root: Client) -> None:
    token = peer.fake.token()
    machine(root)
    root.ask("PUT", "/access/acl", path="/", roles="PVEAuditor", users="deskyard@pve")
    with peer.client(token) as client:
        assert client.ask("GET", f"{NODE}/100/config")["name"] == "vm100"
        root.ask("PUT", "/access/acl", path="/vms/100", roles="NoAccess", users="deskyard@pve")
        refused(client.get(f"{NODE}/100/config"), 403, "VM.Audit")


def test_a_role_is_replaced_or_added_to_when_it_changes(root: Client) -> None:
    root.ask("POST", "/access/roles", roleid="Reader", privs="Sys.Audit,Sys.Modify")
    root.ask("PUT", "/access/roles/Reader", privs="Sys.Audit")
    assert set(root.ask("GET", "/access/roles/Reader")) == {"Sys.Audit"}
    root.ask("PUT", "/access/roles/Reader", privs="VM.Audit", append=1)
    assert set(root.ask("GET", "/access/roles/Reader")) == {"Sys.Audit", "VM.Audit"}
    refused(root.put("/access/roles/Reader", data={"privs": "Nope"}), 500, "invalid privilege 'Nope'")
    refused(root.put("/access/roles/Nobody", data={"privs": "VM.Audit"}), 500, "role 'Nobody' does not exist")


def test_a_grant_to_nobody_or_of_no_role_is_refused(root: Client) -> None:
    for names, reason in (
        ({"roles": "Nope", "users": "root@pam"}, "role"),
        ({"roles": "NoAccess", "users": "x@pve"}, "user"),
    ):
        refused(root.put("/access/acl", data={"path": "/", **names}), 500, f"{reason} '")


# Guests.


def test_an_agent_answers_while_its_machine_runs_and_it_is_on(peer: Peer, root: Client) -> None:
    machine(root, ipconfig0="ip=10.99.1.20/24,gw=10.99.1.1")
    machine(root, 101, agent="0")
    refused(root.post(f"{NODE}/100/agent/ping"), 500, "not running")
    for vmid in (100, 101):
        root.finish("POST", f"{NODE}/{vmid}/status/start")
    assert root.ask("POST", f"{NODE}/100/agent/ping") == {"result": {}}
    refused(root.post(f"{NODE}/101/agent/ping"), 500, "No QEMU guest agent configured")
    shown = root.ask("GET", f"{NODE}/100/agent/network-get-interfaces")["result"]
    mac = root.ask("GET", f"{NODE}/100/config")["net0"].split(",")[0].partition("=")[2].lower()
    assert [nic["ip-addresses"][0]["ip-address"] for nic in shown] == ["127.0.0.1", "10.99.1.20"]
    assert shown[1]["hardware-address"] == mac


def test_a_guest_of_the_test_answers_what_it_is_asked(peer: Peer, root: Client) -> None:
    files: dict[str, str] = {}

    def guest(vm: str, command: str, values: dict[str, Any]) -> Any:
        match command:
            case "exec":
                return {"pid": 7} if values["command"] == ["id", "-u"] else None
            case "exec-status":
                return {"exited": 1, "exitcode": 0, "out-data": f"{vm} {values['pid']}"}
            case "file-write":
                files[values["file"]] = values["content"]
                return {}
            case "file-read":
                return {"content": files[values["file"]]}
        return None

    peer.fake.answerer = guest
    machine(root)
    root.finish("POST", f"{NODE}/100/status/start")
    agent = f"{NODE}/100/agent"
    assert root.ask("POST", f"{agent}/exec", command=["id", "-u"])["pid"] == 7
    assert root.ask("GET", f"{agent}/exec-status", pid=7)["out-data"] == "vm100 7"
    root.ask("POST", f"{agent}/file-write", file="/etc/a", content="plain")
    root.ask("POST", f"{agent}/file-write", file="/etc/b", content=base64.b64encode(b"coded").decode(), encode=0)
    assert files == {"/etc/a": "plain", "/etc/b": "coded"}
    assert root.ask("GET", f"{agent}/file-read", file="/etc/b")["content"] == "coded"
