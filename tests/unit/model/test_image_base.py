"""A base is pinned, and a snapshot is a day that can be had."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.model.image_base import Base, DistributionBase

URL = "https://cloud.example.org/20260911/disk.img"
PACKAGES = {"suite": "trixie", "mirror": "http://example.org/debian", "packages": ["linux"]}


def base(**values: Any) -> Base:
    vendor = values.pop("vendor", {"url": URL, "sha256": "1" * 64})
    return Base.check({"vendor": vendor, **values}, "image.yaml")


def test_either_checksum_pins_the_vendors_image() -> None:
    first, other = base().vendor, base(vendor={"url": URL, "sha512": "2" * 128}).vendor
    assert (first.algorithm, first.checksum) == ("sha256", "1" * 64)
    assert (other.algorithm, other.checksum) == ("sha512", "2" * 128)


@pytest.mark.parametrize(
    ("vendor", "reason"),
    [
        ({"url": URL}, "(?s)no checksum.*SHA256SUMS"),
        ({"url": URL, "sha256": "1" * 64, "sha512": "2" * 128}, "no checksum, or two"),
        ({"url": URL, "sha256": "1" * 63}, "sha256"),
        ({"url": "https://cloud.example.org/noble/current/disk.img", "sha256": "1" * 64}, "dated build"),
        ({"url": "https://cloud.example.org/releases/24.04/release/disk.img", "sha256": "1" * 64}, "dated build"),
        ({"url": "https://cloud.example.org/trixie/latest/disk.img", "sha256": "1" * 64}, "dated build"),
        ({"url": "http://cloud.example.org/20260911/disk.img", "sha256": "1" * 64}, "url"),
    ],
    ids=["no checksum", "two checksums", "no sha256", "current", "release", "latest", "no TLS"],
)
def test_image_that_is_not_pinned_is_refused(vendor: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        base(vendor=vendor)


@pytest.mark.parametrize(
    ("url", "day"),
    [
        (URL, date(2026, 9, 11)),
        ("https://x.org/release-20260911/ubuntu-24.04-server.img", date(2026, 9, 11)),
        ("https://x.org/trixie/20260914-2601/debian-13-genericcloud-amd64-20260914-2601.qcow2", date(2026, 9, 14)),
        ("https://x.org/disk-20269999.img", None),
        ("https://x.org/mine.img", None),
    ],
)
def test_day_of_the_vendors_image_is_that_of_its_url(url: str, day: date | None) -> None:
    assert base(vendor={"url": url, "sha256": "1" * 64}).vendor.made_on() == day


def test_snapshot_is_a_day_since_the_vendors_image() -> None:
    assert base().snapshot is None
    assert base(snapshot="2026-09-11").snapshot == date(2026, 9, 11)
    assert base(snapshot=datetime.now(UTC).date()).snapshot


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        ("2026-09-10", "(?s)older than the vendor's image.*2026-09-11 or later"),
        (20260910, "snapshot"),
        (datetime.now(UTC).date() + timedelta(days=2), "lies in the future"),
        ("yesterday", "snapshot"),
        ("2026-13-01", "snapshot"),
        ("2026-10-01T12:00:00", "snapshot"),
    ],
    ids=["before the image", "a number", "to come", "a word", "no month", "an hour"],
)
def test_snapshot_that_cannot_be_had_is_refused(snapshot: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        base(snapshot=snapshot)


def test_only_debian_is_bootstrapped() -> None:
    assert base(bootstrap=PACKAGES).bootstrap.suite == "trixie"
    with pytest.raises(ConfigError, match="only Debian is bootstrapped"):
        base(distribution="ubuntu-24.04", bootstrap=PACKAGES)


def test_base_that_is_not_bootstrapped_says_so_where_one_is_asked_for() -> None:
    ubuntu = base(distribution="ubuntu-24.04")
    assert ubuntu.suite == "noble"
    with pytest.raises(ConfigError, match=r"(?s)cannot be bootstrapped.*DESKYARD_BASE"):
        _ = ubuntu.bootstrap


def test_unknown_distribution_is_refused() -> None:
    with pytest.raises(ConfigError, match="distribution"):
        DistributionBase.check({"distribution": "ubuntu-25.10", "vendor": {"url": URL, "sha256": "1" * 64}}, "x.yaml")
