"""Where a site's backups go: no address holds a password or a key, and a refusal repeats none."""

import traceback
from pathlib import Path

import pytest

from deskyard.errors import ConfigError
from deskyard.model.site import Site, without_secret
from deskyard.site.files import read_site


def site(address: str) -> Site:
    """A site that keeps its backups there."""
    return Site.check({"name": "local", "backups": address}, "local.yaml")


@pytest.mark.parametrize(
    "address",
    [
        "/srv/backups",
        "sftp:host:backups",
        "sftp:host:/srv/backups",
        "sftp:user@host:/srv/backups",
        "sftp://host/srv",
        "sftp://user@host:2222//srv/backups",
        "sftp://user@[2001:db8::1]:22//srv/backups",
        "s3:https://host/bucket",
        "s3:https://host:9000/bucket/folder",
        "s3:http://127.0.0.1:9000/bucket",
        "s3:s3.eu-central-1.amazonaws.com/bucket",
        "s3:https://[2001:db8::1]:9000/bucket",
    ],
)
def test_an_address_without_a_secret_is_good(address: str) -> None:
    assert site(address).backups == address


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("sftp://user:hunter2@host/srv", "sftp://user:***@host/srv"),
        ("sftp://user:hun/t@er2@host/srv", "sftp://user:***@host/srv"),
        ("sftp://user%3Ahunter2@host/srv", "sftp://user:***@host/srv"),
        ("sftp://:hunter2@host/srv", "sftp://:***@host/srv"),
        ("sftp://host:hunter2/srv", "sftp://***"),
        ("sftp:user:hunter2@host:/srv", "sftp:user:***@host:/srv"),
        ("sftp://user@host/srv?password=hunter2", "sftp://user@host/srv?***"),
        ("s3:https://S3ID:hunter2@host/bucket", "s3:https://:***@host/bucket"),
        ("s3:https://hunter2@host/bucket", "s3:https://:***@host/bucket"),
        ("s3:https://S3ID:hun/ter2/bucket", "s3:https://***"),
        ("s3:S3ID:hunter2/bucket", "s3:***"),
        ("s3:https://host/bucket?X-Amz-Signature=hunter2", "s3:https://host/bucket?***"),
        ("rest:https://user:hunter2@host/srv", "rest:https://:***@host/srv"),
        ("user:hunter2@host:/srv", "user::***@host:/srv"),
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(address: str, shown: str) -> None:
    assert without_secret(address) == shown
    with pytest.raises(ConfigError) as caught:
        site(address)
    error = caught.value
    assert (error.field, error.value) == ("local.yaml: backups", shown)
    assert "holds a password or a key" in error.reason
    assert error.remedy.startswith("take it out of the address: ")
    assert ("AWS_SECRET_ACCESS_KEY" if address.startswith("s3:") else "ssh-copy-id") in error.remedy
    # Nor is it in what a log keeps of an error that nobody caught.
    for secret in ("hun", "er2"):
        assert secret not in f"{error}{error.as_dict()}{''.join(traceback.format_exception(error))}"


@pytest.mark.parametrize("address", ["srv", "ftp://host/srv", "s3:https://host", "sftp://us er@host/srv", "/a b"])
def test_what_is_no_address_is_refused_as_it_is(address: str) -> None:
    with pytest.raises(ConfigError, match="backups = "):
        site(address)


def test_it_is_refused_where_a_site_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites/local.yaml").write_text("backups: sftp://user:hunter2@host/srv\n")
    with pytest.raises(ConfigError, match="holds a password or a key"):
        read_site("local")
