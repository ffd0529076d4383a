"""Profiles are saved for their owner only, and a damaged one is reported."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from zmtpscope.tui import profiles
from zmtpscope.tui.profiles import MAX_FILTERS, Profile, ProfileError


def test_a_saved_profile_is_loaded_again(config: Path) -> None:
    profile = Profile("nord", ("time", "topic"), "a", (("size > 3", "red"),), ("topic == a",))
    profiles.save("mine", profile)
    assert profiles.load("mine") == profile
    assert profiles.names() == ["mine"]
    (path,) = config.rglob("mine.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_profile_is_optional(config: Path) -> None:
    assert profiles.load("default") == Profile()


def test_the_error_of_a_damaged_profile_names_a_remedy(config: Path) -> None:
    profiles.save("mine", Profile())
    (path,) = config.rglob("mine.json")
    path.write_text('{"theme": 3}')
    with pytest.raises(ProfileError, match=r"mine\.json: .*theme.*correct it, or remove it"):
        profiles.load("mine")


def test_two_instances_save_their_own_changes() -> None:
    before = Profile(filters=("size > 3",))
    other = Profile("nord", filters=("size > 3", "conn == 1"))
    now = Profile(time="a", filters=("size > 3", "conn == 2"))
    assert profiles.merged(other, before, now) == Profile(
        "nord", time="a", filters=("size > 3", "conn == 1", "conn == 2")
    )


@pytest.mark.parametrize("name", ["../x", "", "a/b", "a b"])
def test_names_stay_in_their_folder(config: Path, name: str) -> None:
    with pytest.raises(ProfileError):
        profiles.save(name, Profile())


def test_a_filter_is_remembered_once_and_the_last_ones_only() -> None:
    profile = Profile()
    for number in range(MAX_FILTERS + 5):
        profile.remember(f"size > {number}")
        profile.remember("topic == a")
    assert len(profile.filters) == MAX_FILTERS
    assert profile.filters[-1] == "topic == a"
    assert profile.filters.count("topic == a") == 1
