"""host.show says how guests really boot."""

import json
import os

import pytest
from invoke import Context

from deskyard.host.vm import accelerator
from deskyard.site.libvirt.limits import caps
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


@pytest.mark.parametrize("lacking", [{}, {"cpu_percent": "the hypervisor was started without the control groups"}])
def test_caps_that_this_machine_cannot_hold_are_named_with_what_helps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lacking: dict[str, str]
) -> None:
    monkeypatch.setattr(accelerator, "accelerator", lambda _: "kvm")
    monkeypatch.setattr(caps, "not_held", lambda: lacking)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    host.show(Context())
    shown = capsys.readouterr().out
    assert ("caps          all of a tier can be held" in shown) is (not lacking)
    for cap, reason in lacking.items():
        assert f"cannot hold   {cap}: {reason} -> run ./inv site.down" in shown
    host.show(Context(), json=True)
    assert json.loads(capsys.readouterr().out)["caps_not_held"] == lacking


def test_who_is_not_root_is_told_which_cap_was_not_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(accelerator, "accelerator", lambda _: "kvm")
    monkeypatch.setattr(caps, "_processor", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    host.show(Context())
    shown = capsys.readouterr().out
    assert "not tried     network_mib_per_second: only root can" in shown
    assert "can be held" not in shown
