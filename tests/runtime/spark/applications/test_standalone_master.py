"""What is read off the pages of a standalone master and its workers."""

from __future__ import annotations

import http.server
import threading

import pytest

from pystate.runtime.spark.applications.standalone_master import (
    Application,
    MasterView,
    fetch_json,
    look_at_master,
    masters_in,
)

MASTER = "spark://10.0.0.1:7077"


def page(**changes):
    """As Spark 4.3 gives it at /json/, with the fields that matter here."""
    applications = [
        {"id": "app-1", "name": "report", "cores": 12, "user": "root", "state": "RUNNING"},
        {"id": "app-2", "name": "pystate 1f", "cores": 0, "user": "root", "state": "WAITING"},
    ]
    told = {"url": MASTER, "status": "ALIVE", "aliveworkers": 2, "cores": 16, "coresused": 12, "activeapps": applications}
    return {**told, **changes}


class Web:
    """Pages by their URLs; knows which were asked for."""

    def __init__(self, **pages):
        self.pages = pages
        self.asked = []

    def __call__(self, url):
        self.asked.append(url)
        return self.pages.get(url)


def test_the_leading_master_is_asked_at_its_usual_place():
    web = Web(**{"http://10.0.0.1:8080/json/": page()})
    view = look_at_master(MASTER, 8080, [], web)
    assert view == MasterView(MASTER, 2, 16, 12, (Application("app-1", "report", 12), Application("app-2", "pystate 1f", 0)))
    assert view.knows("app-2")
    assert not view.knows("app-3")
    assert view.others("app-2") == [Application("app-1", "report", 12)]
    assert view.others("app-1") == [], "an application that waits holds nothing"


@pytest.mark.parametrize(
    "told",
    [
        None,
        "a page of something else",
        {},
        page(url="spark://10.0.0.9:7077"),
        page(status="STANDBY"),
        page(status="RECOVERING"),
        page(activeapps=[{"id": "app-1"}]),
        page(cores="many"),
    ],
)
def test_what_does_not_lead_our_cluster_says_nothing(told):
    assert look_at_master(MASTER, 8080, [], Web(**{"http://10.0.0.1:8080/json/": told})) is None


def test_of_several_masters_the_one_that_leads_counts():
    web = Web(**{"http://a:8080/json/": page(url="spark://a:7077", status="STANDBY")})
    web.pages["http://b:8080/json/"] = page(url="spark://b:7077")
    view = look_at_master("spark://a:7077,b:7077", 8080, [], web)
    assert view is not None
    assert view.url == "spark://b:7077"


def test_workers_know_where_the_page_of_their_master_is():
    worker = {"masterurl": MASTER, "masterwebuiurl": "http://localhost:9999"}
    web = Web(**{"http://10.0.0.2:8081/json/": worker, "http://10.0.0.1:9999/json/": page()})
    assert look_at_master(MASTER, 8080, ["http://10.0.0.3:8081", "http://10.0.0.2:8081"], web) is not None
    assert web.asked[-1] == "http://10.0.0.1:9999/json/", "localhost is the worker's own"


@pytest.mark.parametrize("worker", [None, [], {"masterwebuiurl": "file:///etc"}, {"masterwebuiurl": 7, "masterurl": MASTER}])
def test_a_worker_that_does_not_know_leads_nowhere(worker):
    web = Web(**{"http://w:8081/json/": worker})
    assert look_at_master(MASTER, 8080, ["http://w:8081"], web) is None
    assert len(web.asked) == 2


def test_only_standalone_masters_have_a_page():
    assert masters_in("spark://a:1,b:2") == ["spark://a:1", "spark://b:2"]
    assert masters_in("yarn") == masters_in("local[2]") == masters_in("k8s://https://host") == []


def test_pages_are_read_over_http_and_what_is_none_is_nothing():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path != "/404" else 404)
            self.end_headers()
            self.wfile.write(b'{"cores": 4}' if self.path == "/json/" else b"<html>")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}"
    assert fetch_json(f"{root}/json/") == {"cores": 4}
    assert fetch_json(f"{root}/other") is None
    assert fetch_json(f"{root}/404") is None
    server.shutdown()
    server.server_close()
    assert fetch_json(f"{root}/json/") is None
