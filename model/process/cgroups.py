"""The cgroups a process is in, versions 1 and 2: where the kernel keeps their limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc/self")
"""Where Linux tells a process about itself."""


def cgroup_folders(controller: str, proc: Path = PROC) -> Iterator[Path]:
    """Folders of the cgroups this process is in, the innermost first: each may set a limit, and the least holds.

    Args:
        controller: What is limited, as cgroup v1 calls it: ``cpu`` or ``memory``. Version 2 has one tree for all.
        proc: The process's folder.
    """
    memberships = _memberships(proc)
    for root, mount, is_v2, options in _cgroup_mounts(proc):
        path = memberships.get("" if is_v2 else controller)
        if path is None or not (is_v2 or controller in options):
            continue
        # In a container the mount may show a part of the tree only, and the path may lead out of it.
        inside = Path(path).relative_to(root) if Path(path).is_relative_to(root) else Path()
        folder = mount if ".." in inside.parts else mount / inside
        yield from (one for one in (folder, *folder.parents) if one.is_relative_to(mount) and one.is_dir())


def _memberships(proc: Path) -> dict[str, str]:
    """The cgroup by controller; version 2's under the empty name."""
    found: dict[str, str] = {}
    for line in lines(proc / "cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path.startswith("/") and (controllers or number == "0"):
            found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _cgroup_mounts(proc: Path) -> Iterator[tuple[str, Path, bool, list[str]]]:
    """The part of the tree that is mounted, where, whether it is version 2, and its options."""
    for line in lines(proc / "mountinfo"):
        left, _, right = line.partition(" - ")
        fields, system = left.split(), right.split()
        if len(fields) > 4 and len(system) > 2 and system[0] in ("cgroup", "cgroup2"):
            root, mount = (_unescaped(field) for field in fields[3:5])
            yield root, Path(mount), system[0] == "cgroup2", system[-1].split(",")


def _unescaped(field: str) -> str:
    """A path as it is: mountinfo writes blanks and their like as three octal digits behind a backslash."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def lines(path: Path) -> list[str]:
    """Lines of one of the kernel's files; none where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux, or not ours to read
        return []
