"""Mission Control as a whole: brings it up and down, and makes links and keys at the host."""

import ipaddress
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from deskyard.control.anchors.gateways import Gateways
from deskyard.control.anchors.proof import prove
from deskyard.control.anchors.source import source
from deskyard.control.e2b import declared as e2b
from deskyard.control.ground.folder import Folder
from deskyard.control.ground.settings import PORT, Settings, kept
from deskyard.control.identity import declared
from deskyard.control.identity.declared import Declared
from deskyard.control.people import records
from deskyard.control.people.passkeys import bytes_of
from deskyard.control.process import pages
from deskyard.control.process.noted import TABLES, end_left, noted
from deskyard.control.process.unit import Unit
from deskyard.control.state import door_answers, door_fault, ready, runs, state, supervisor
from deskyard.control.store import backup, migration
from deskyard.control.store.administrator import nobody_asks
from deskyard.control.store.cluster import OWNER, Cluster
from deskyard.control.store.connection import Link
from deskyard.control.store.database import chosen, database_at
from deskyard.control.store.elsewhere import Elsewhere
from deskyard.control.watch import mail
from deskyard.control.watch.mail import MailServer
from deskyard.errors import ConfigError, HostError
from deskyard.host import changes
from deskyard.host.deadline import Deadline
from deskyard.host.places import places, tree
from deskyard.host.progress import Timings, say, step
from deskyard.host.secret_file import write_secret
from deskyard.site import certificate_authority
from deskyard.site.files import read_site

UP_SECONDS = 360.0  # more than its database may take on a machine that is slow or busy
TABLES_SECONDS = 4 * 3600.0  # the backup and the change of large tables, which are between
DOOR_SECONDS = 60.0  # how long it is awaited that E2B's clients are answered: nothing else depends on that
LEFT_SECONDS = 15.0  # what a process may take to end after its supervisor, before it is ended by force
RENEW_BEFORE = timedelta(days=30)
FIRST_PERSON = "admin"


@dataclass(frozen=True)
class Control:
    """Mission Control of this machine."""

    folder: Folder = field(default_factory=Folder)
    # Asks for the password of a database's administrator, where one is elsewhere.
    password: Callable[[], str] = nobody_asks

    def up(
        self,
        site: str = "local",
        port: int = PORT,
        timings: Timings | None = None,
        webhook_networks: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Bring it up, or to what this tree is; `link` is a one-use link if nobody has a passkey yet."""
        declared = read_site(site)
        found = kept(self.folder)
        before = found[0].webhook_networks if found else ()
        networks = before if webhook_networks is None else tuple(map(_network, webhook_networks))
        address = chosen(self.folder, found[0].database if found else None)
        settings = Settings(site, declared.domain, declared.listen, port, networks, address)
        if (answered := e2b.kept(self.folder.e2b_declared)) is not None:
            answered.checked(settings.domain, settings.port)
        place = database_at(self.folder, address, self.password)
        if isinstance(place, Elsewhere):
            place.check()
        with step("accounts and folders", timings):
            self.folder.accounts.make()
            self.folder.lay_out()
        if isinstance(place, Elsewhere):
            with step("database", timings):
                place.settle()
        with step("pages", timings):
            pages.build(self.folder.pages)
        with step("certificate", timings):
            self._certify(settings, self.folder.certificate, (settings.host,))
            if answered is not None:
                self._certify(settings, self.folder.e2b_certificate, answered.names)
                self.folder.e2b_authority.write_bytes(places().authority(site).read_bytes())
                self.folder.e2b_authority.chmod(0o644)
        with step("processes", timings):
            settings.save(self.folder)
            self.down()
            self._start()
            if not self._came_up():
                tail = supervisor(self.folder).log_tail()
                self.down()
                raise HostError("control", str(self.folder.root), f"did not come up:\n{tail}", "see its logs folder")
            if answered is not None and not Deadline(DOOR_SECONDS).wait_for(lambda: door_answers(self.folder), 0.1):
                say(f"    all but the process for E2B's clients is up, which {door_fault(self.folder)}")
        return {**self.status(), "link": self.first_link()}

    def first_link(self) -> str | None:
        """A one-use link that enrols the first person's passkey; None once anybody has a passkey."""
        with self._database() as link:
            if link.execute("select 1 from passkey limit 1").fetchone() is not None:
                return None
        return str(self.person(FIRST_PERSON, "admin")["link"])

    def down(self) -> None:
        """End its processes; what they know stays."""
        supervisor(self.folder).stop()
        # Where its supervisor was killed, the database and all others are still ending.
        Cluster(self.folder).end_orphan()
        end_left(self.folder, LEFT_SECONDS)

    def status(self) -> dict[str, Any]:
        """Whether it runs, where it is reached, and each of its processes."""
        return state(self.folder)

    def backup(self, target: Path) -> dict[str, Any]:
        """Write all that is known to a file, or into a folder, while everything runs."""
        settings = self._settings()
        with self._database() as link:
            made = backup.make(self.folder, settings, target)
            _note(link, "control.backup", made["file"])
        return made

    def restore(self, path: Path, *, dry_run: bool) -> dict[str, Any]:
        """Bring a backup in where Mission Control was never up; no machine is touched."""
        if runs(self.folder):
            remedy = "restore where Mission Control was never up"
            raise HostError("control", str(self.folder.root), "runs", remedy)
        found = kept(self.folder)
        address = chosen(self.folder, found[0].database if found else None)
        return backup.restore(database_at(self.folder, address, self.password), path, dry_run=dry_run)

    def upgrade(self, timings: Timings | None = None) -> dict[str, Any]:
        """Bring what runs to this tree; before its tables change, a backup is made."""
        settings = self._settings()
        # Of a database elsewhere `up` looks at it.
        if runs(self.folder) and settings.database is None:
            migration.require_known(migration.version(Cluster(self.folder).url(OWNER)))
        return self.up(settings.site, settings.port, timings)

    def audit(self) -> dict[str, Any]:
        """Whether the audit is whole, by its own hashes and by what the gateways hold of it."""
        with self._database() as link:
            return prove(link, source(self.folder), Gateways())

    def person(
        self,
        name: str,
        role: str | None = None,
        workspaces: list[str] | None = None,
        mail: str | None = None,
        gives: str | None = None,
    ) -> dict[str, Any]:
        """Add a person, or give one another link: with it a passkey is enrolled, once, within half an hour."""
        settings = self._settings()
        with self._database() as link, link.transaction():
            become, token = records.add(link, _host(), name, records.Given(role, workspaces, mail, gives))
            row = link.execute("select gives from person where name = %s", [name]).fetchone()
        made = {"name": name, "role": become, "workspaces": workspaces, "gives": row["gives"] if row else None}
        return {**made, "link": records.enrolment_link(settings.origin, token), "seconds": records.LINK_SECONDS}

    def remove_person(self, name: str) -> dict[str, Any]:
        """Let a person in no more: passkeys, sessions and links count no longer."""
        with self._database() as link, link.transaction():
            records.remove(link, _host(), name)
        return {"name": name, "removed": True}

    def passkeys(self, name: str) -> list[dict[str, Any]]:
        """The passkeys of a person: id, name, and since when."""
        with self._database() as link:
            return records.passkeys_of(link, name)

    def remove_passkey(self, name: str, id: str) -> dict[str, Any]:
        """End a passkey of a person, also the last one: the host makes a new link."""
        with self._database() as link, link.transaction():
            if id not in {each["id"] for each in records.passkeys_of(link, name)}:
                remedy = f"see ./inv control.person {name} --passkeys"
                raise ConfigError("--passkey", id, f"is no passkey of {name}", remedy)
            records.remove_passkey(link, _host(), bytes_of(id))
        return {"name": name, "passkey": id, "removed": True}

    def key(self, name: str, scopes: list[str], workspaces: list[str] | None, days: int) -> dict[str, Any]:
        """Make an API key; the answer is the only place where it ever stands."""
        records.require_scopes(scopes, workspaces, days)
        with self._database() as link, link.transaction():
            key = records.make_key(link, _host(), name, scopes, workspaces, days)
        return {"id": key.id, "name": name, "key": key.text, "scopes": sorted(set(scopes)), "days": days}

    def declare(self, provider: Declared) -> dict[str, Any]:
        """Let people sign in by a provider from now on; Mission Control begins anew if it runs."""
        self._settings()
        provider.checked().save(self.folder.provider)
        self._note_if_it_runs("provider.declare", provider.issuer, rules=[rule.text for rule in provider.rules])
        self._begin_anew()
        return provider.shown()

    def withdraw(self) -> bool:
        """Let nobody sign in by a provider any more, and end the sessions of who did; false if none could."""
        if declared.kept(self.folder.provider) is None:
            return False
        with self._database() as link, link.transaction():
            link.execute(records.END_LINKED)
            _note(link, "provider.withdraw", "provider")
        self.folder.provider.unlink()
        self._begin_anew()
        return True

    def declared(self) -> dict[str, Any] | None:
        """The declared provider, without its secret; None if there is none."""
        found = declared.kept(self.folder.provider)
        return found.shown() if found is not None else None

    def declare_mail(self, server: MailServer) -> dict[str, Any]:
        """Have alerts mailed by a server from the next mail on; it has to let us in first."""
        server = server.checked()
        with self._database() as link:
            server.probe()
            with link.transaction():
                link.execute("insert into mail_server (sender) values (%s) on conflict do nothing", [server.sender])
                link.execute("update mail_server set sender = %s", [server.sender])
                _note(link, "mail.declare", server.sender, server=f"{server.host}:{server.port}")
                server.save(self.folder.mail)
        return server.shown()

    def withdraw_mail(self) -> bool:
        """Mail nobody any more; whoever was mailed is told nothing from now on. False if no server was declared."""
        if mail.kept(self.folder.mail) is None:
            return False
        with self._database() as link, link.transaction():
            link.execute("delete from mail_server")
            link.execute(
                "update webhook set gone_at = now() where url like %s and gone_at is null", [f"{mail.SCHEME}%"]
            )
            _note(link, "mail.withdraw", "mail")
            self.folder.mail.unlink()
        return True

    def mail_server(self) -> dict[str, Any] | None:
        """The declared mail server, without its password; None if there is none."""
        found = mail.kept(self.folder.mail)
        return found.shown() if found is not None else None

    def declare_e2b(self, wanted: e2b.Declared) -> dict[str, Any]:
        """Answer E2B's clients from now on; Mission Control begins anew if it runs."""
        settings = self._settings()
        wanted.checked(settings.domain, settings.port)
        before = e2b.kept(self.folder.e2b_declared)
        if before is None or before.port != wanted.port:
            # The proxy would not start, and nobody would reach Mission Control.
            wanted.require_free_port(settings.listen)
        wanted.save(self.folder.e2b_declared)
        self._note_if_it_runs("e2b.declare", wanted.authority)
        self._begin_anew()
        return wanted.shown()

    def withdraw_e2b(self) -> bool:
        """Answer E2B's clients no more; desktops and what is kept of sandboxes stay. False if nobody answered them."""
        if e2b.kept(self.folder.e2b_declared) is None:
            return False
        self.folder.e2b_declared.unlink()
        self._note_if_it_runs("e2b.withdraw", "e2b")
        self._begin_anew()
        return True

    def _note_if_it_runs(self, action: str, target: str, **detail: Any) -> None:
        if runs(self.folder):
            with self._database() as link:
                _note(link, action, target, **detail)

    def _begin_anew(self) -> None:
        settings = self._settings()
        if runs(self.folder):
            self.up(settings.site, settings.port)

    def _database(self) -> Link:
        found = kept(self.folder)
        if found is None or not runs(self.folder):
            raise HostError("control", str(self.folder.root), "does not run", "run ./inv control.up")
        return database_at(found[1], found[0].database).as_owner()

    def _settings(self) -> Settings:
        found = kept(self.folder)
        if found is None:
            raise HostError("control", str(self.folder.root), "was never up", "run ./inv control.up")
        return found[0]

    def _start(self) -> None:
        background = supervisor(self.folder)
        if isinstance(background, Unit):
            background.start()
        else:
            argv = [sys.executable, "-m", "deskyard.control.process.supervisor", str(self.folder.root)]
            background.start(argv, cwd=tree())

    def _came_up(self) -> bool:
        """Wait until all answers; false if that takes too long, beside a change of the tables, or it has ended."""

        def is_over() -> bool:
            return not runs(self.folder) or ready(self.folder)

        def changes() -> bool:
            return noted(self.folder).get(TABLES, False)

        return (
            Deadline(UP_SECONDS).wait_for(lambda: is_over() or changes(), 0.1)
            and Deadline(TABLES_SECONDS).wait_for(lambda: not changes(), 0.1)
            and Deadline(UP_SECONDS).wait_for(is_over, 0.1)
            and runs(self.folder)
        )

    def _certify(self, settings: Settings, path: Path, hosts: Sequence[str]) -> None:
        """A certificate of the site's authority, unless there is one that lasts."""
        if path.exists():
            leaf = x509.load_pem_x509_certificate(path.read_bytes())
            names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            fresh = certificate_authority.expires(path.read_text()) - RENEW_BEFORE > datetime.now(UTC)
            if set(hosts) <= set(names.get_values_for_type(x509.DNSName)) and fresh:
                return
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, hosts[0][:64])])
        request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
        authority = certificate_authority.authority(settings.site, settings.domain)
        chain = authority.sign(request.public_bytes(serialization.Encoding.PEM).decode(), *hosts)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_secret(path, chain.encode() + private)
        say(f"    a certificate of the site's authority for {', '.join(hosts)}")


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text.strip()))
    except ValueError as error:
        remedy = "write networks such as 10.1.0.0/16, separated by commas"
        raise ConfigError("--webhook-networks", text, "is no network", remedy) from error


def _note(link: Link, action: str, target: str, **detail: Any) -> None:
    records.note(link, _host(), action, target, **detail)


def _host() -> str:
    """Who works at the host, as the audit names them."""
    return f"host:{changes.operator()}"
