"""A machine of a cluster: a linked clone that stands still, its firewall, its volume of /home, then its power.

Decides nothing.
"""

import pulumi
import pulumi_proxmoxve as pve
from pulumi_proxmoxve import firewall

from deskyard.plan.account import MANAGER
from deskyard.plan.proxmox.firewall import RulePlan
from deskyard.plan.proxmox.workspace import NicPlan, VmPlan
from deskyard.plan.workspace import GATEWAY
from deskyard.site.proxmox.kinds.drive import Caps
from deskyard.site.proxmox.kinds.resources import Home, Power
from deskyard.site.proxmox.machine import CPU, DISK, OS_TYPE

# What a later image or cloud-init must never change or replace, and what `Power` sees to. Nobody declares `startup`:
# to set or delete it takes Sys.Modify on `/`, beyond VM.Config.Options (qemu-server, PVE/API2/Qemu.pm,
# check_vm_modify_config_perm), and machines of earlier versions may hold it.
# Of disks: their sizes and caps are `Power`'s.
OF_ITS_OWN = ["started", "protection", "disks", "startup"]
OF_A_DESKTOP = [*OF_ITS_OWN, "clone", "initialization"]
# More than one try would take a machine that another client has just made under the same id for our own:
# the provider believes that "already exists" at a second try means that the first one worked.
CLONE_TRIES = 1
SEED = "ide2"


class Machine:
    """The resources of one machine, all below the component `parent`."""

    def __init__(
        self, name: str, plan: VmPlan, management_key: str, after: list[pulumi.Resource], opts: pulumi.ResourceOptions
    ) -> None:
        desktop = plan.owner.machine != GATEWAY
        self._name, self._plan = name, plan
        self._caps = Caps.of(plan.disk_iops, plan.disk_mib_per_second, plan.disk_burst)
        self.vm = pve.VmLegacy(
            f"{name}-machine",
            _vm(plan, management_key),
            pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(
                    depends_on=after,
                    protect=desktop,
                    delete_before_replace=True,
                    ignore_changes=OF_A_DESKTOP if desktop else OF_ITS_OWN,
                ),
            ),
        )
        self.power = Power(
            f"{name}-power",
            site=plan.owner.site,
            node=plan.node,
            vm_id=self.vm.vm_id,
            protected=desktop,
            disk=DISK,
            disk_gib=plan.machine.disk_gib,
            caps=self._caps,
            opts=pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(
                    depends_on=[*self._firewall(opts), *self._home(opts)],
                    protect=desktop,
                    delete_before_replace=True,
                    replace_with=[self.vm],
                ),
            ),
        )

    def _home(self, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        """The volume of /home, if it has one: as protected as its machine, with which it goes."""
        plan = self._plan
        if plan.machine.home_gib is None:
            return []
        own = pulumi.ResourceOptions(
            protect=True, deleted_with=self.vm, replace_with=[self.vm], delete_before_replace=True
        )
        return [
            Home(
                f"{self._name}-home",
                site=plan.owner.site,
                node=plan.node,
                vm_id=self.vm.vm_id,
                storage=plan.storage,
                size_gib=plan.machine.home_gib,
                caps=self._caps,
                opts=pulumi.ResourceOptions.merge(opts, own),
            )
        ]

    def _firewall(self, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        """Goes with its machine, and comes again with a new one."""
        bound = pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(deleted_with=self.vm, replace_with=[self.vm], delete_before_replace=True),
        )
        plan, name = self._plan.firewall, self._name
        node, vm_id = self._plan.node, self.vm.vm_id
        sets: list[pulumi.Resource] = [
            firewall.IpsetLegacy(
                f"{name}-own-{nic}",
                name=f"ipfilter-{nic}",
                comment="addresses that it may send from",
                cidrs=[firewall.IpsetLegacyCidrArgs(name=address) for address in addresses],
                node_name=node,
                vm_id=vm_id,
                opts=bound,
            )
            for nic, addresses in plan.own.items()
        ]
        rules = firewall.RulesLegacy(
            f"{name}-rules", rules=[_rule(rule) for rule in plan.rules], node_name=node, vm_id=vm_id, opts=bound
        )
        options = firewall.OptionsLegacy(
            f"{name}-firewall",
            enabled=True,
            input_policy="DROP",
            output_policy="DROP",
            macfilter=True,
            ipfilter=plan.ipfilter,
            dhcp=False,
            ndp=False,
            radv=False,
            log_level_in="nolog",
            log_level_out="nolog",
            node_name=node,
            vm_id=vm_id,
            opts=bound,
        )
        return [*sets, rules, options]


def _vm(plan: VmPlan, management_key: str) -> pve.VmLegacyArgs:
    machine = plan.machine
    return pve.VmLegacyArgs(
        node_name=plan.node,
        vm_id=plan.vm_id,
        name=plan.owner.vm_name,
        description=plan.owner.tag,
        pool_id=plan.owner.pool,
        tags=list(plan.tags),
        clone=pve.VmLegacyCloneArgs(vm_id=plan.template, node_name=plan.template_node, full=False, retries=CLONE_TRIES),
        cpu=pve.VmLegacyCpuArgs(cores=machine.vcpus, sockets=1, limit=plan.cpu_limit, type=CPU),
        memory=pve.VmLegacyMemoryArgs(dedicated=machine.memory_mib, floating=0),
        disks=[_disk(plan)],
        network_devices=[_nic(nic) for nic in plan.nics],
        initialization=_initialization(plan, management_key),
        agent=pve.VmLegacyAgentArgs(enabled=True, trim=True, wait_for_ip=pve.VmLegacyAgentWaitForIpArgs(disabled=True)),
        operating_system=pve.VmLegacyOperatingSystemArgs(type=OS_TYPE),
        # Without this the provider would put the node's own drive in.
        cdrom=pve.VmLegacyCdromArgs(file_id="none", interface="ide3"),
        on_boot=plan.on_boot,
        started=False,
        protection=False,
        reboot_after_update=False,
        stop_on_destroy=True,
        purge_on_destroy=True,
    )


def _disk(plan: VmPlan) -> pve.VmLegacyDiskArgs:
    return pve.VmLegacyDiskArgs(interface=DISK, datastore_id=plan.storage, size=plan.machine.disk_gib, discard="on")


def _nic(nic: NicPlan) -> pve.VmLegacyNetworkDeviceArgs:
    return pve.VmLegacyNetworkDeviceArgs(
        bridge=nic.bridge,
        mac_address=nic.mac.upper(),
        model="virtio",
        firewall=True,
        vlan_id=nic.vlan,
        rate_limit=None if nic.mib_per_second is None else float(nic.mib_per_second),
    )


def _initialization(plan: VmPlan, management_key: str) -> pve.VmLegacyInitializationArgs:
    return pve.VmLegacyInitializationArgs(
        datastore_id=plan.storage,
        interface=SEED,
        upgrade=False,
        dns=pve.VmLegacyInitializationDnsArgs(servers=list(plan.resolvers)) if plan.resolvers else None,
        ip_configs=[
            pve.VmLegacyInitializationIpConfigArgs(
                ipv4=pve.VmLegacyInitializationIpConfigIpv4Args(address=nic.config, gateway=nic.router)
            )
            for nic in plan.nics
        ],
        user_account=pve.VmLegacyInitializationUserAccountArgs(username=MANAGER, keys=[management_key]),
    )


def _rule(plan: RulePlan) -> firewall.RulesLegacyRuleArgs:
    return firewall.RulesLegacyRuleArgs(
        type=plan.direction,
        action=plan.action,
        comment=plan.comment,
        iface=plan.iface,
        source=plan.source,
        dest=plan.dest,
        proto=plan.proto,
        sport=plan.sport,
        dport=plan.dport,
        log="nolog",
    )
