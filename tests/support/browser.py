"""A real browser: headless Chromium, driven by its own driver, that trusts exactly one certificate."""

import base64
import io
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.support.door import Door

# With these Chromium calls no server of its vendor.
ALONE = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
# For tests whose pages are all of one site: without these Chromium starts a process for each visit of each page.
ONE_PROCESS = ("--renderer-process-limit=1", "--disable-site-isolation-trials")
SWITCHES = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", *ALONE, "--window-size=1600,1000")


@contextmanager
def browser(door: Door) -> Iterator[webdriver.Chrome]:
    """A fresh browser whose only trusted certificate is the one the gateway proved to hold under the site's CA."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    with tempfile.TemporaryDirectory() as profile:
        for switch in (*SWITCHES, f"--user-data-dir={profile}", trust_alone(certificate_of(door))):
            options.add_argument(switch)
        driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        try:
            driver.set_page_load_timeout(60)
            yield driver
        finally:
            driver.quit()


def pixels(picture: bytes) -> "numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.uint8]]":
    """A PNG as an array: height x width x red, green, blue."""
    return numpy.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def share_of_colour(picture: bytes, colour: str, tolerance: int = 12) -> float:
    """The share of pixels, 0 to 1, within `tolerance` of a colour such as `#1d3557` in each channel."""
    wanted = numpy.array([int(colour[index : index + 2], 16) for index in (1, 3, 5)])
    close = (numpy.abs(pixels(picture).astype(int) - wanted) <= tolerance).all(axis=2)
    return float(close.mean())


def keep(picture: bytes, name: str) -> Path:
    """Keep a screenshot as an artefact of the test run."""
    folder = Path(__file__).parents[2] / "artifacts"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.png"
    path.write_bytes(picture)
    return path


def trust_alone(*certificates: str) -> str:
    """The switch by which Chromium trusts certificates (PEM) that were verified before, beside its own store's."""
    return f"--ignore-certificate-errors-spki-list={','.join(map(_fingerprint, certificates))}"


def _fingerprint(certificate: str) -> str:
    public = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    digest = hashes.Hash(hashes.SHA256())
    digest.update(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    return base64.b64encode(digest.finalize()).decode()


def certificate_of(door: Door) -> str:
    """The certificate of a gateway, verified against the site's authority."""
    with door.tls().wrap_socket(door.wire(), server_hostname=door.url.split("//")[1].split(":")[0]) as wire:
        verified = wire.getpeercert(binary_form=True)
    assert verified is not None
    return ssl.DER_cert_to_PEM_cert(verified)
