"""Directories that only this user can write to."""

import os

import pytest
from systems import posix

from tether._foundation.private import private_directory

pytestmark = posix


def test_a_new_directory_is_for_us_alone(tmp_path):
    place = private_directory(tmp_path / "a" / "b", "ours")
    assert place == tmp_path / "a" / "b" / "ours"
    assert place.stat().st_mode & 0o777 == 0o700
    assert private_directory(tmp_path / "a" / "b", "ours") == place


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "attack").mkdir(mode=0o700)
    (tmp_path / "ours").symlink_to(tmp_path / "attack")
    assert private_directory(tmp_path, "ours") is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_directory_that_others_can_write_to_is_not_used(tmp_path, mode):
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours").chmod(mode)
    assert private_directory(tmp_path, "ours") is None


def test_a_directory_of_another_account_is_not_used(tmp_path, monkeypatch):
    (tmp_path / "ours").mkdir(mode=0o700)
    owner = (tmp_path / "ours").stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert private_directory(tmp_path, "ours") is None
