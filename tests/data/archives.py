"""Archives of a few files, in memory."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping


def tar_gz(files: Mapping[str, str], commit: str | None = None) -> bytes:
    """A compressed tar archive, as of a repository if it names its commit."""
    buffer = io.BytesIO()
    headers = {"comment": commit} if commit else {}
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT, pax_headers=headers) as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    """A ZIP archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()
