"""Write a container image as an OCI archive from files of this machine, without a container tool or a download.

``image.py OUT NAME --packages P… --path DIRECTORY…`` takes what Debian packages and all that they depend on installed
here; ``--file SOURCE DESTINATION`` takes one file. Documentation stays behind. Commands are looked up in ``--path``
first.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

_DOCUMENTATION = (
    "/usr/share/doc/",
    "/usr/share/man/",
    "/usr/share/locale/",
    "/usr/share/info/",
    "/usr/share/lintian/",
)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_USERS = (
    "root:x:0:0::/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\ntrainer:x:1000:1000::/tmp:/bin/sh\n"
)
_GROUPS = "root:x:0:\ntrainer:x:1000:\nnogroup:x:65534:\n"
_FOLDERS = {
    "proc": 0o555,
    "sys": 0o555,
    "dev": 0o755,
    "tmp": 0o1777,
    "root": 0o755,
    "run": 0o755,
    "run/sshd": 0o755,
    "var/tmp": 0o1777,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("name")
    parser.add_argument("--packages", nargs="*", default=[])
    parser.add_argument("--path", nargs="*", default=[])
    parser.add_argument("--file", nargs=2, action="append", default=[])
    parser.add_argument("--command", default="/bin/sh")
    asked = parser.parse_args()
    files = {destination.lstrip("/"): Path(source) for source, destination in asked.file}
    texts: dict[str, str] = {}
    if asked.packages:
        files |= installed(with_dependencies(asked.packages))
        texts = {"etc/passwd": _USERS, "etc/group": _GROUPS, "etc/nsswitch.conf": "hosts: files dns\n"}
    layer = asked.out.with_suffix(".layer")
    write_layer(layer, files, texts)
    config = {"Cmd": [asked.command], "Env": [f"PATH={':'.join([*asked.path, _PATH])}"]}
    write_archive(asked.out, asked.name, layer, config)
    layer.unlink()
    print(f"{asked.name}: {asked.out.stat().st_size >> 20} MiB")


def with_dependencies(names: Iterable[str]) -> list[str]:
    """The packages and, recursively, those that they need and that are installed. SystemExit when one is missing."""
    form = "${Package}\t${db:Status-Status}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
    listing = subprocess.run(["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True).stdout
    needs: dict[str, list[str]] = {}
    provided: dict[str, str] = {}
    for line in listing.splitlines():
        name, status, depends, provides = line.split("\t")
        if status == "installed":
            needs[name] = re.findall(r"(?:^|[,|]\s*)([a-z0-9][a-z0-9.+-]*)", depends)
            provided |= dict.fromkeys(re.findall(r"(?:^|,\s*)([a-z0-9][a-z0-9.+-]*)", provides), name)
    missing = [name for name in names if name not in needs]
    if missing:
        raise SystemExit(f"not installed: {' '.join(missing)}")
    found: list[str] = []
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        name = name if name in needs else provided.get(name, "")
        if name and name not in found:
            found.append(name)
            waiting += needs[name]
    return found


def installed(packages: Iterable[str]) -> dict[str, Path]:
    """Path in the image to the file here. Folders that are links here (``/bin``) are links there."""
    listing = subprocess.run(["dpkg-query", "-L", *packages], capture_output=True, text=True, check=True).stdout
    found: dict[str, Path] = {
        link: Path("/", link) for link in ("bin", "sbin", "lib", "lib64") if Path("/", link).is_symlink()
    }
    found["etc/ld.so.cache"] = Path("/etc/ld.so.cache")
    for line in listing.splitlines():
        path = Path(line)
        if line.startswith("/") and not line.startswith(_DOCUMENTATION) and (path.is_symlink() or path.is_file()):
            real = path.parent.resolve() / path.name
            found[str(real)[1:]] = real
    for link in Path("/etc/alternatives").iterdir():  # made when a package was set up, so in no package's list
        if str(link.resolve())[1:] in found:
            found[str(link)[1:]] = link
    for folder in (Path("/usr/bin"), Path("/usr/sbin")):
        for link in folder.iterdir():
            if link.is_symlink() and str(link.readlink())[1:] in found:
                found[str(link)[1:]] = link
    return found


def write_layer(out: Path, files: dict[str, Path], texts: dict[str, str]) -> None:
    """One uncompressed layer. Folders come first, each once."""
    folders = dict(_FOLDERS) if texts else {}
    for name in (*files, *texts):
        folders |= {str(parent): 0o755 for parent in Path(name).parents if str(parent) not in (".", *folders)}
    with tarfile.open(out, "w") as layer:
        for name in sorted(folders):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, folders[name]
            layer.addfile(entry)
        for name, source in files.items():
            if name not in texts:
                layer.add(source, arcname=name, recursive=False)
        for name, text in texts.items():
            _add(layer, name, text.encode())


def write_archive(out: Path, name: str, layer: Path, config: dict[str, object]) -> None:
    """The archive that ``ctr images import`` reads."""
    with layer.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    blobs: dict[str, bytes] = {}

    def blob(kind: str, value: object) -> dict[str, object]:
        content = json.dumps(value).encode()
        named = hashlib.sha256(content).hexdigest()
        blobs[named] = content
        return {
            "mediaType": f"application/vnd.oci.image.{kind}.v1+json",
            "digest": f"sha256:{named}",
            "size": len(content),
        }

    history = {
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    layers = [
        {
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "digest": f"sha256:{digest}",
            "size": layer.stat().st_size,
        }
    ]
    manifest = blob("manifest", {"schemaVersion": 2, "config": blob("config", history), "layers": layers})
    manifest["annotations"] = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    with tarfile.open(out, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(archive, "index.json", json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode())
        for named, content in blobs.items():
            _add(archive, f"blobs/sha256/{named}", content)
        archive.add(layer, arcname=f"blobs/sha256/{digest}")


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    main()
