"""Whether what destroys, reveals or opens was signed: the worker's own look, which web cannot stand in for."""

import hmac
from typing import Any

from deskyard.control.approvals import rules
from deskyard.control.approvals.target import KIND, target
from deskyard.control.consent import target as consent
from deskyard.control.credentials import target as credentials
from deskyard.control.founding.target import FOUND, end_target, found_target
from deskyard.control.machines.target import UPGRADE, signed_target
from deskyard.control.opening import seal
from deskyard.control.opening.target import SESSION, create_target, session_target
from deskyard.control.people.intent import CREATE, END, Intent, is_signed
from deskyard.control.people.keys import prove
from deskyard.control.people.passkeys import Passkeys, credential_id
from deskyard.control.people.scopes import ADMIN, DECIDE, DESTROY, READ, ROLES, WRITE, bounded
from deskyard.control.queue.claim import Claim
from deskyard.control.retention import policy
from deskyard.control.store.connection import Link, Row
from deskyard.control.tasks.target import BEGIN, RELEASE, release_target
from deskyard.control.upkeep.signed import ALLOW, RESTORE, RULED, allow_target, restore_target
from deskyard.errors import ConfigError

UNSIGNED = "sign it with a passkey, or use a key with the scope for it"
SCOPES = {"desktop.destroy": DESTROY, KIND: DECIDE, rules.SET: ADMIN, rules.REMOVE: ADMIN}
SCOPES |= {
    policy.SET: ADMIN,
    policy.REMOVE: ADMIN,
    RESTORE: DESTROY,
    RELEASE: DESTROY,
    UPGRADE: DESTROY,
    ALLOW: DECIDE,
    SESSION: WRITE,
    CREATE: WRITE,
    consent.KIND: DECIDE,
    FOUND: ADMIN,
    END: ADMIN,
}
# Of one's own passkeys everybody may end one.
SCOPES |= dict.fromkeys(credentials.KINDS, ADMIN) | {credentials.PASSKEY: READ}


def require(link: Link, held: Claim, passkeys: Passkeys) -> str:
    """Raise `ConfigError` unless the operation needs no leave, or has one that is true and was not used before.

    The answer is who stands for it: whoever signed, where the request could say another.
    """
    if not is_signed(held.kind, held.input):
        return held.actor
    _require_its_workspace(held)
    proof = dict(held.proof or {})
    intent = Intent.parsed(proof.get("intent"))
    if held.kind == ALLOW:
        _require_no_rule(link, held)
    # It counts from when it was admitted: it may have waited long since.
    intent.require(held.kind, _target(link, held), held.created_at.timestamp())
    by_key = "key" in proof
    if held.kind == SESSION:
        _require_seal(held, by_key)
    if by_key and held.kind in credentials.KINDS:
        remedy = "let an admin sign it with a passkey, or do it at the host"
        raise ConfigError("proof", proof["key"], "is of a key: only a person makes keys and persons", remedy)
    signer = _by_key(link, held, proof, intent) if by_key else _by_passkey(link, held, proof, intent, passkeys)
    # Another attempt of the same operation may use it again: nothing else may. Of several desktops, once for each.
    use = f"{intent.nonce} {held.desktop}" if held.kind == UPGRADE else intent.nonce
    query = """insert into intent_used (nonce, operation_id) values (%s, %s)
        on conflict (nonce) do nothing returning nonce"""
    used = link.execute("select operation_id from intent_used where nonce = %s", [use]).fetchone()
    if used is None:
        used = link.execute(query, [use, held.id]).fetchone() and {"operation_id": held.id}
    if used is None or used["operation_id"] != held.id:
        raise ConfigError("intent", intent.nonce, "was used before", "sign a new one")
    return signer


def _require_its_workspace(held: Claim) -> None:
    """Raise `ConfigError` for a desktop of another workspace: what is done there is done to a desktop of that name."""
    if held.desktop is not None and held.desktop.partition(".")[0] != held.workspace:
        raise ConfigError("workspace", held.workspace, f"is not that of {held.desktop}", "ask for it anew")


def _require_seal(held: Claim, by_key: bool) -> None:
    """Raise `ConfigError` for a link that whoever carries it to a person could use."""
    key = held.input.get("seal_to")
    if key is not None:
        seal.recipient(key)
    elif not by_key:
        raise ConfigError("sealTo", None, "is missing: a person's link is sealed to their browser", seal.REMEDY)


def _require_no_rule(link: Link, held: Claim) -> None:
    row = link.execute(rules.RULE, [held.workspace]).fetchone()
    if row is not None and ALLOW not in row["operations"]:
        raise ConfigError("workspace", held.workspace, RULED, rules.REMEDY)


def _target(link: Link, held: Claim) -> str:
    """The target that has to have been signed: of an answer, what is known of the ticket, whatever the request says."""
    if held.kind == rules.SET:
        return rules.Rule.of(str(held.workspace), held.input).target
    if held.kind == policy.SET:
        return policy.Policy.of(held.workspace, held.input).target
    if held.kind == RESTORE:
        return restore_target(held.desktop, held.input)
    if held.kind == RELEASE:
        return release_target(held.desktop, held.input)
    if held.kind == UPGRADE:
        return signed_target(held.desktop, held.input)
    if held.kind == ALLOW:
        return allow_target(held.workspace, held.input)
    if held.kind == SESSION:
        return session_target(held.desktop, held.input)
    if held.kind == CREATE:
        # What is declared is named by the request alone.
        return create_target(f"{held.workspace}.{held.input.get('name')}", held.input)
    if held.kind == FOUND:
        return found_target(held.workspace, held.input)
    if held.kind == END:
        return end_target(held.workspace, held.input.get("desktops"))
    if held.kind == consent.KIND:
        return _consent_target(link, held)
    if held.kind in credentials.KINDS:
        return credentials.parsed(held.kind, held.input).target
    if held.kind != KIND:
        return held.desktop or held.workspace or ""
    query = "select id, ticket, desktop_id, workspace_id, name, port from approval where id = %s"
    found = link.execute(query, [str(held.input.get("approval"))]).fetchone()
    if found is None or (found["workspace_id"], found["desktop_id"]) != (held.workspace, held.desktop):
        raise ConfigError("approval", held.input.get("approval"), "is not known here", "see GET /api/approvals")
    return target(found, str(held.input.get("answer")))


def _consent_target(link: Link, held: Claim) -> str:
    query = "select id, kind, workspace_id, desktop_id, asker, asked from operation where id = %s and asker is not null"
    found = link.execute(query, [str(held.input.get("operation"))]).fetchone()
    if found is None or (found["workspace_id"], found["desktop_id"]) != (held.workspace, held.desktop):
        remedy = "see GET /api/operations?state=waiting"
        raise ConfigError("operation", held.input.get("operation"), "does not wait for anybody", remedy)
    return consent.target(found, str(held.input.get("answer")))


def _by_key(link: Link, held: Claim, proof: dict[str, Any], intent: Intent) -> str:
    query = """select api_key.name, key_proof.secret, scopes, workspaces
        from key_proof join api_key on api_key.id = key_id
        where key_id = %s and revoked_at is null and expires_at > now()"""
    row = link.execute(query, [str(proof["key"])]).fetchone()
    if row is None or not hmac.compare_digest(prove(bytes(row["secret"]), intent.canonical), str(proof.get("proof"))):
        raise ConfigError("proof", proof["key"], "is not that of this key", UNSIGNED)
    signer = f"key:{row['name']}:{proof['key']}"
    if _scope(link, held, signer) not in bounded(row["scopes"], row["workspaces"]) or not _is_within(held, row):
        raise ConfigError("proof", proof["key"], "is of a key that may not do this", UNSIGNED)
    return signer


def _by_passkey(link: Link, held: Claim, proof: dict[str, Any], intent: Intent, passkeys: Passkeys) -> str:
    credential = proof.get("credential")
    query = """select public_key, role, workspaces, person.name from passkey join person on person.id = person_id
        where passkey.id = %s and disabled_at is null"""
    row = link.execute(query, [credential_id(credential)]).fetchone()
    if row is None:
        raise ConfigError("passkey", None, "is of nobody here", UNSIGNED)
    passkeys.verify(credential, intent.challenge, bytes(row["public_key"]))
    signer = f"person:{row['name']}"
    scope = _scope(link, held, signer)
    if scope not in bounded(ROLES[row["role"]], row["workspaces"]) or not _is_within(held, row):
        raise ConfigError("passkey", None, f"is of a {row['role']}, who may not do this", "ask an operator")
    return signer


def _scope(link: Link, held: Claim, signer: str) -> str:
    """The scope that an operation needs: whoever began a desktop for a task ends it by the one that began it."""
    query = """select 1 from operation where kind = %s and state = 'done' and desktop_id = %s and actor = %s
        and result ->> 'machine' = %s"""
    values = [BEGIN, held.desktop, signer, held.input.get("machine")]
    is_own = held.kind == RELEASE and link.execute(query, values).fetchone() is not None
    return WRITE if is_own else SCOPES[held.kind]


def _is_within(held: Claim, row: Row) -> bool:
    """Whether an operation is of a workspace to which a key or person is bound, if they are; a passkey is of none."""
    return row["workspaces"] is None or held.workspace in row["workspaces"] or held.kind == credentials.PASSKEY
