"""Users, tokens, roles and access control lists.

pve-docs, chapter "User Management"; PVE/API2/{ACL,User,Role}.pm, PVE/AccessControl.pm and
PVE/RPCEnvironment.pm. Groups have no members, realms keep no state, and what a token of root@pam may do is not
restricted.
"""

import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

from fakepve import shapes
from fakepve.model import PveError

from tests.support.pve.cluster import Routes

Values = dict[str, Any]
ALLOCATES = {"storage": "Datastore.Allocate", "vms": "VM.Allocate", "pool": "Pool.Allocate"}
# Before the names of groups among those who have grants; the configuration of Proxmox VE marks them so, too.
GROUP = "@"
# What is listed besides the paths of all entries (PVE::RPCEnvironment, get_effective_permissions).
TOP_PATHS = ("/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms")


class Grant(NamedTuple):
    """A role for somebody on a path; fakepve drops grants by their first element when their object goes."""

    path: str
    role: str
    propagate: bool


class AccessApi:
    """Part of the peer: who may do what. A separated token may do what both it and its user may."""

    acl: dict[str, list[Grant]]
    apitokens: dict[str, str]
    users: dict[str, str]
    pools: dict[str, set[int]]
    pool_info: dict[str, dict[str, Any]]
    roles: dict[str, set[str]]
    groups: dict[str, Values]
    accounts: dict[str, Values]
    tokens: dict[str, Values]
    need_quorum: Callable[[], None]

    def _routes_acl(self) -> Routes:
        token = "/access/users/{userid}/token/{tokenid}"
        return [
            ("GET", "/access/acl", self._acl),
            ("PUT", "/access/acl", self._acl_update),
            ("POST", "/access/groups", self._group_create),
            ("GET", "/access/roles", self._roles),
            ("POST", "/access/roles", self._role_create),
            ("GET", "/access/roles/{roleid}", self._role),
            ("PUT", "/access/roles/{roleid}", self._role_update),
            ("GET", "/access/users", self._users),
            ("POST", "/access/users", self._user_create),
            ("DELETE", "/access/users/{userid}", self._user_delete),
            ("GET", token, self._token),
            ("POST", token, self._token_create),
            ("DELETE", token, self._token_delete),
        ]

    def allowed(self, user: str | None, path: str, privilege: str) -> bool:
        """Whether the user or token has the privilege on the path."""
        return privilege in self.privileges(user or "", path)

    def privileges(self, user: str, path: str) -> set[str]:
        """All that the user or token may do on the path (PVE::AccessControl::roles, permissions)."""
        owner, _, token = user.partition("!")
        if owner == "root@pam":
            return set(shapes.PRIVILEGES)
        of_owner = self._of(owner, path)
        if not token or not self.tokens.get(user, {}).get("privsep", 1):
            return of_owner
        return of_owner & self._of(user, path)

    def _of(self, name: str, path: str) -> set[str]:
        held = self._on(name, path)
        for pool in self._pools_of(path):
            held = held | self._on(name, f"/pool/{pool}")
        return held

    def _on(self, name: str, path: str) -> set[str]:
        """A grant on a deeper level replaces those that it would inherit."""
        parts = [part for part in path.split("/") if part]
        roles: set[str] = set()
        for depth in range(len(parts) + 1):
            here = "/" + "/".join(parts[:depth])
            found = {g.role for g in self.acl.get(name, []) if g.path == here and (g.propagate or depth == len(parts))}
            roles = found or roles
        return set() if "NoAccess" in roles else set().union(*(self.roles[role] for role in roles))

    def _pools_of(self, path: str) -> list[str]:
        kind, _, name = path.strip("/").partition("/")
        if kind == "vms" and name.isdigit():
            return [pool for pool, members in self.pools.items() if int(name) in members]
        if kind == "storage":
            return [pool for pool, info in self.pool_info.items() if name in info["storage"]]
        return []

    async def _permissions(self, values: Values, user: str) -> Values:
        """GET /access/permissions: path -> privilege -> 1."""
        who = values.get("userid") or user
        listed = (grant.path for grants in self.acl.values() for grant in grants)
        paths = [values["path"]] if values.get("path") else [*TOP_PATHS, *listed]
        held = {path: self.privileges(who, path) for path in paths}
        return {path: dict.fromkeys(sorted(names), 1) for path, names in held.items() if names}

    async def _acl(self, _: Values, user: str) -> list[Values]:
        """GET /access/acl."""
        return [
            {
                "path": grant.path,
                "roleid": grant.role,
                "ugid": name.removeprefix(GROUP),
                "type": "group" if name.startswith(GROUP) else "token" if "!" in name else "user",
                "propagate": int(grant.propagate),
            }
            for name, grants in sorted(self.acl.items())
            for grant in grants
            if user.startswith("root@pam") or self.allowed(user, grant.path, "Permissions.Modify")
        ]

    async def _acl_update(self, values: Values, user: str) -> None:
        """PUT /access/acl: gives or takes roles, each of whose privileges the giver has by name."""
        self.need_quorum()
        path = "/" + str(values["path"]).strip("/")
        self._may_give(user, path, values)
        groups = [f"{GROUP}{name}" for name in _list(values.get("groups"))]
        names = [*_list(values.get("users")), *_list(values.get("tokens")), *groups]
        for role in _list(values["roles"]):
            if role not in self.roles:
                raise PveError(500, f"ACL update failed: role '{role}' does not exist")
            for name in names:
                if name not in self.accounts.keys() | self.tokens.keys() | {f"{GROUP}{group}" for group in self.groups}:
                    kind = "group" if name in groups else "token" if "!" in name else "user"
                    raise PveError(500, f"ACL update failed: {kind} '{name.removeprefix(GROUP)}' does not exist")
                kept = [grant for grant in self.acl.get(name, []) if (grant.path, grant.role) != (path, role)]
                new = [] if values.get("delete") else [Grant(path, role, bool(values.get("propagate", 1)))]
                self.acl[name] = kept + new

    def _check(self, user: str, check: Any, values: Values, declared: Any = None) -> tuple[bool, str]:
        """The rule of a method; who may allocate a thing may give roles on it (RPCEnvironment, check_perm_modify)."""
        if check[0] != "perm-modify":
            judged: tuple[bool, str] = super()._check(user, check, values, declared)  # type: ignore[misc]
            return judged
        path = "/" + str(values.get("path") or "").strip("/")
        kind, _, rest = path.strip("/").partition("/")
        wanted = ["Permissions.Modify", *([ALLOCATES[kind]] if rest and kind in ALLOCATES else [])]
        return any(self.allowed(user, path, name) for name in wanted), f"{path}, {'|'.join(wanted)}"

    def _may_give(self, user: str, path: str, values: Values) -> None:
        """Without Permissions.Modify only roles whose privileges one has by name (PVE/API2/ACL.pm)."""
        held = self.privileges(user, path)
        verb = "remove" if values.get("delete") else "add"
        for role in _list(values["roles"]):
            if "Permissions.Modify" not in held and not self.roles.get(role, set()) <= held:
                reason = "requires 'Permissions.Modify' or superset of privileges."
                fault = f"Parameter verification failed.\nrole: Cannot {verb} role '{role}' - {reason}"
                raise PveError(500, f"ACL update failed: 400 {fault}")

    async def _group_create(self, values: Values, _: str) -> None:
        """POST /access/groups."""
        if values["groupid"] in self.groups:
            raise PveError(500, f"create group failed: group '{values['groupid']}' already exists")
        self.groups[values["groupid"]] = {"comment": values.get("comment", "")}

    async def _roles(self, _: Values, __: str) -> list[Values]:
        """GET /access/roles."""
        return [{"roleid": name, "privs": ",".join(sorted(held)), "special": 0} for name, held in self.roles.items()]

    async def _role(self, values: Values, _: str) -> Values:
        """GET /access/roles/{roleid}."""
        if values["roleid"] not in self.roles:
            raise PveError(500, f"role '{values['roleid']}' does not exist")
        return dict.fromkeys(sorted(self.roles[values["roleid"]]), 1)

    async def _role_create(self, values: Values, _: str) -> None:
        """POST /access/roles."""
        if values["roleid"] in self.roles:
            raise PveError(500, f"create role failed: role '{values['roleid']}' already exists")
        self.roles[values["roleid"]] = _known(values, "create role failed")

    async def _role_update(self, values: Values, _: str) -> None:
        """PUT /access/roles/{roleid}: in place of what it held, or beside it with `append` (PVE/API2/Role.pm)."""
        name = values["roleid"]
        if name not in self.roles:
            raise PveError(500, f"update role failed: role '{name}' does not exist")
        kept = self.roles[name] if values.get("append") else set()
        self.roles[name] = kept | _known(values, "update role failed")

    async def _users(self, _: Values, __: str) -> list[Values]:
        """GET /access/users."""
        return [{"userid": name, "enable": 1, **account} for name, account in self.accounts.items()]

    async def _user_create(self, values: Values, _: str) -> None:
        """POST /access/users."""
        if values["userid"] in self.accounts:
            raise PveError(500, f"create user failed: user '{values['userid']}' already exists")
        self.accounts[values["userid"]] = {"comment": values.get("comment", "")}
        if values.get("password"):
            self.users[values["userid"]] = values["password"]

    async def _user_delete(self, values: Values, _: str) -> None:
        """DELETE /access/users/{userid}: with tokens and grants."""
        name = values["userid"]
        if self.accounts.pop(name, None) is None:
            raise PveError(500, f"delete user failed: user '{name}' does not exist")
        self.users.pop(name, None)
        for held in (self.tokens, self.apitokens, self.acl):
            for key in [key for key in held if key == name or key.startswith(f"{name}!")]:
                held.pop(key)

    async def _token(self, values: Values, _: str) -> Values:
        """GET /access/users/{userid}/token/{tokenid}: never the secret."""
        return dict(self._known(values))

    async def _token_create(self, values: Values, _: str) -> Values:
        """POST /access/users/{userid}/token/{tokenid}: the only answer with the secret."""
        name = f"{values['userid']}!{values['tokenid']}"
        if values["userid"] not in self.accounts:
            raise PveError(500, f"generating token failed: user '{values['userid']}' does not exist")
        if name in self.tokens:
            raise PveError(400, "Parameter verification failed.", {"tokenid": "Token already exists."})
        info = {"privsep": int(values.get("privsep", 1)), "expire": values.get("expire", 0)}
        self.tokens[name], self.apitokens[name] = info, secrets.token_hex(16)
        return {"full-tokenid": name, "value": self.apitokens[name], "info": info}

    async def _token_delete(self, values: Values, _: str) -> None:
        """DELETE /access/users/{userid}/token/{tokenid}."""
        self._known(values)
        name = f"{values['userid']}!{values['tokenid']}"
        del self.tokens[name], self.apitokens[name]
        self.acl.pop(name, None)

    def _known(self, values: Values) -> Values:
        name = f"{values['userid']}!{values['tokenid']}"
        if name not in self.tokens:
            raise PveError(500, f"no such token '{values['tokenid']}' for user '{values['userid']}'")
        return self.tokens[name]


def _known(values: Values, failure: str) -> set[str]:
    privileges = set(_list(values.get("privs")))
    if unknown := privileges - set(shapes.PRIVILEGES):
        raise PveError(500, f"{failure}: invalid privilege '{min(unknown)}'")
    return privileges


def _list(text: Any) -> list[str]:
    return str(text or "").replace(",", " ").split()
