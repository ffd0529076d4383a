"""Profiles: appearance and filter history, saved in `$XDG_CONFIG_HOME/zmtpscope`."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from msgspec import Struct

from zmtpscope.tui.requests import ListSpec
from zmtpscope.tui.saved_files import folder, save_file

DEFAULT = "default"
MAX_FILTERS = 200


class ProfileError(Exception):
    """A profile cannot be read or written; the text names file and reason."""


class Profile(Struct):
    """The contents of a profile. `filters` is the history, latest last."""

    theme: str = "textual-dark"
    columns: tuple[str, ...] = ()
    time: str = "r"
    rules: tuple[tuple[str, str], ...] = ()
    """Colour rules: (filter, style)."""
    filters: tuple[str, ...] = ()

    def take_look(self, spec: ListSpec) -> None:
        self.columns, self.time, self.rules = spec.columns, spec.time, spec.rules

    def remember(self, filter: str) -> None:
        others = tuple(each for each in self.filters if each != filter)
        self.filters = (*others, filter)[-MAX_FILTERS:]


def merged(current: Profile, before: Profile, now: Profile) -> Profile:
    """Return `current` with the settings that changed from `before` to `now`, and the filters that were typed in
    between."""
    changes = {
        name: getattr(now, name)
        for name in ("theme", "columns", "time", "rules")
        if getattr(now, name) != getattr(before, name)
    }
    found = msgspec.structs.replace(current, **changes)
    for filter in now.filters:
        if filter not in before.filters:
            found.remember(filter)
    return found


def names() -> list[str]:
    return sorted(path.stem for path in folder().glob("*.json"))


def load(name: str) -> Profile:
    """Return a profile, or a new one if it is missing. Raises `ProfileError`."""
    path = _path(name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Profile)
    except FileNotFoundError:
        return Profile()
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}") from None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ProfileError(f"{path}: {error}; correct it, or remove it") from None


def save(name: str, profile: Profile) -> None:
    """Save a profile, readable by its owner only: filters may be confidential. Raises `ProfileError`."""
    path = _path(name)
    try:
        save_file(path, msgspec.json.format(msgspec.json.encode(profile), indent=2))
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}") from None


def save_changes(name: str, before: Profile, now: Profile) -> None:
    """Save only the settings that changed from `before` to `now`, since another instance may have saved others.

    Raises `ProfileError`.
    """
    if before != now:
        save(name, merged(load(name), before, now))


def _path(name: str) -> Path:
    if re.fullmatch(r"[\w-]{1,64}", name) is None:
        raise ProfileError(f"{name!r} is no name for a profile: letters, digits, - and _ are")
    return folder() / f"{name}.json"
