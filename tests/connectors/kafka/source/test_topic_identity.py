"""What was handed on is proven by the ids that brokers name afterwards; who doesn't answer holds nobody up for long."""

from __future__ import annotations

import logging
import threading

import pytest

from pystate.common.errors import ExternalSystemError
from pystate.connectors.kafka.source import topic_identity
from pystate.connectors.kafka.source.topic_identity import NEVER, FoundTopic, RecreatedTopicError, TopicProof
from tests.waiting import LONGEST_S, wait_until


class Brokers:
    def __init__(self):
        self.ids = {"a": "1", "b": "2"}
        self.asked = []
        self.answers = threading.Event()
        self.answers.set()
        self.fails = False
        self.failure = ExternalSystemError("away")

    def __call__(self, topics):
        self.asked.append(topics)
        self.answers.wait(LONGEST_S)
        if self.fails:
            raise self.failure
        return {topic: FoundTopic(self.ids[topic], frozenset([0])) for topic in topics if topic in self.ids}


@pytest.fixture
def brokers():
    made = Brokers()
    yield made
    made.answers.set()


def proof_of(brokers, clock=lambda: 0):
    proof = TopicProof(brokers, "words", clock)
    proof.know("a", "1")
    proof.know("b", "2")
    return proof


def test_brokers_are_asked_for_topics_of_which_something_was_handed_on_and_for_no_others(brokers):
    proof = proof_of(brokers)
    proof.prove()
    assert brokers.asked == []
    proof.handed_on({"a", "of unknown id"})
    proof.prove()
    proof.prove()
    assert brokers.asked == [{"a"}]
    brokers.ids["b"] = "3"
    proof.handed_on({"a"})
    proof.prove()
    proof.handed_on({"b"})
    for again in (proof.prove, proof.prove, proof.look):
        with pytest.raises(RecreatedTopicError, match=r"'b' was deleted and recreated.*\(2\).*\(3\)"):
            again()


def test_who_does_not_answer_is_waited_for_once(brokers, monkeypatch, caplog):
    monkeypatch.setattr(topic_identity, "_WAIT_S", 0.01)
    proof = proof_of(brokers)
    brokers.answers.clear()
    proof.handed_on({"a"})
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            proof.prove()
            proof.handed_on({"b"})
    assert len(brokers.asked) == len(caplog.records) == 1
    brokers.ids["b"] = "3"
    monkeypatch.setattr(topic_identity, "_WAIT_S", 10)
    brokers.answers.set()
    wait_until(lambda: proof._asked[1].done())
    with pytest.raises(RecreatedTopicError):
        proof.prove()


def test_a_known_id_stays_whatever_partitions_come_later(brokers):
    proof = proof_of(brokers)
    proof.know("a", "1")
    for again in (lambda: proof.know("a", "9"), proof.look, proof.prove, lambda: proof.know("a", "9")):
        with pytest.raises(RecreatedTopicError, match=r"'a' was deleted and recreated.*\(1\).*\(9\)"):
            again()


@pytest.mark.parametrize("failure", ["the brokers are away", "the client is broken", "the topic isn't there"])
def test_what_could_not_be_proven_is_asked_for_again(brokers, failure):
    proof = proof_of(brokers)
    brokers.fails = failure != "the topic isn't there"
    if failure == "the client is broken":
        brokers.failure = AttributeError("poll")
    del brokers.ids["a"]
    proof.handed_on({"a"})
    proof.prove()
    brokers.fails, brokers.ids["a"] = False, "9"
    with pytest.raises(RecreatedTopicError):
        proof.prove()


def test_without_checkpoints_it_is_looked_now_and_then_and_nobody_waits(brokers):
    now = [0]
    proof = proof_of(brokers, lambda: now[0])
    proof.look()
    assert proof.look_at() == NEVER
    proof.handed_on({"a"})
    proof.look()
    assert brokers.asked == []
    now[0] = proof.look_at()
    brokers.ids["a"] = "9"
    with pytest.raises(RecreatedTopicError):
        wait_until(lambda: proof.look())
    assert brokers.asked == [{"a"}]


def test_a_topic_under_suspicion_is_looked_at_at_once(brokers):
    proof = proof_of(brokers)
    proof.suspect("a")
    proof.look()
    wait_until(lambda: proof._asked is None or proof.look())
    assert brokers.asked == [{"a"}]
