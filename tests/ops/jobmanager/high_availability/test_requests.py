"""What high availability costs on S3, in requests, as docs/job-manager.md says it."""

from __future__ import annotations

import pytest

from pystate.core.file_systems.fenced_files import FencedFiles
from pystate.core.file_systems.places import parse_location
from pystate.ops.jobmanager.high_availability.lease_objects import LeaseObjects
from tests.core.file_systems.conftest import Place, make_place


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    return make_place("s3", request)


def kinds(place: Place) -> list[str]:
    """Return what was asked since the last time."""
    asked = [words.split()[0] if "list-type" not in words else "LIST" for words in place.s3.asked]
    place.s3.asked.clear()
    return asked


def test_a_renewal_is_a_put_and_a_deletion_and_the_question_who_leads_a_list(place):
    fs, path, _ = parse_location(f"{place.uri}/leader")
    lease = LeaseObjects(fs, path)
    lease.take(1, {"port": 1})
    lease.renew(1)
    kinds(place)

    lease.renew(1)
    assert kinds(place) == ["PUT", "DELETE"]
    assert lease.highest_token() == 1
    assert kinds(place) == ["LIST"]
    lease.observed()
    assert kinds(place) == ["LIST"]


def test_a_change_is_three_requests_and_a_look_at_what_has_not_changed_is_one(place):
    fs, path, _ = parse_location(f"{place.uri}/job")
    files = FencedFiles(fs, path, 1)
    files.write("term.json", b"1")
    kinds(place)

    files.write("term.json", b"2")
    assert kinds(place) == ["LIST", "PUT", "DELETE"]
    assert files.read("term.json") == b"2"
    assert kinds(place) == ["LIST", "HEAD", "GET"]
    assert files.read("term.json") == b"2"
    assert kinds(place) == ["LIST"]
