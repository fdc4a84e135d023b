"""host.show says how guests really boot."""

import json

import pytest
from invoke import Context

from deskyard.host.vm import accelerator
from deskyard.tasks import host


@pytest.mark.parametrize(("chosen", "says"), [("kvm", "guests boot   with KVM\n"), ("tcg", "guests boot   emulated")])
def test_what_guests_boot_with_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], chosen: str, says: str
) -> None:
    monkeypatch.setattr(accelerator, "accelerator", lambda _: chosen)
    host.show(Context())
    assert says in capsys.readouterr().out
    host.show(Context(), json=True)
    assert json.loads(capsys.readouterr().out)["accelerator"] == chosen
