import numpy as np
import pytest

from polypath import credit
from polypath.credit.votes import (
    collective_vote,
    majority_vote,
    matches_reference,
    peer_vote,
    plurality,
    vote_totals,
)

SOURCES = np.repeat([0, 1, 2], 4)
TIED = ["5", "5", "5", "6", "6", "6", "5", "8", "6", "8", "6", "8"]


def test_collective_vote_by_hand():
    # self-consistencies .75, .5, .5; 5: .5625 + .125, 6: .1875 + .25 + .25, 8: .125 + .25. 5 and 6 tie
    assert vote_totals(TIED, SOURCES) == pytest.approx({"5": 0.6875, "6": 0.6875, "8": 0.375})
    assert not collective_vote(TIED, SOURCES).any()
    decided = [*TIED[:9], "6", "6", "8"]
    assert collective_vote(decided, SOURCES).tolist() == [float(a == "6") for a in decided]


def test_a_self_consistent_minority_outweighs_a_scattered_majority():
    answers = ["a", "a", "a", "a", "b", "b", "c", "d", "b", "b", "c", "d"]  # a: 1; b: 2 x .5 x .5
    assert collective_vote(answers, SOURCES)[:4].tolist() == [1.0] * 4
    assert majority_vote(["a", "b", None, "b"]).tolist() == [0.0, 1.0, 0.0, 1.0]


def test_peers_are_rewarded_with_others_labels_only():
    answers = ["a", "a", "b", "b", "b", "a", "c", "c", "c"]
    sources = np.repeat([0, 1, 2], 3)  # labels a, b, c
    ring = peer_vote(answers, sources)  # 0 takes c, 1 takes a, 2 takes b
    assert ring.tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert not peer_vote(answers, sources, exchange="peers").any()  # every pair of peers disagrees
    agree = ["a", "b", "b", "b", "b", "a", "b", "b", "c"]
    assert peer_vote(agree, sources, exchange="peers").tolist() == [0, 1, 1, 1, 1, 0, 1, 1, 0]


def test_no_label_no_peer_and_no_answer_reward_nobody():
    sources = np.array([0, 0, 1, 1])
    assert not peer_vote(["a", "b", "a", "a"], sources)[2:].any()  # agent 0 is split
    assert peer_vote(["a", "b", "a", "a"], sources)[:2].tolist() == [1.0, 0.0]
    assert not peer_vote(["a", "a"], np.array([3, 3])).any()
    assert not peer_vote([None, None, "a", "a"], sources)[2:].any()
    assert not peer_vote(["a", "b", "c", "a", "a", "a"], np.array([0, 0, 0, 1, 1, 1]), threshold=0.9)[3:].any()
    assert plurality([]) is None and plurality([None]) is None


def test_batches_are_their_groups():
    groups = [["a", "a", "b", "b"], ["c", "d", "d", "d"]]
    sources = np.array([[0, 0, 1, 1], [0, 1, 1, 1]])
    for function in (peer_vote, collective_vote):
        both = function(groups, sources)
        assert both.tolist() == [function(g, s).tolist() for g, s in zip(groups, sources, strict=True)]
    assert majority_vote(groups).tolist() == [[0.0] * 4, [0.0, 1.0, 1.0, 1.0]]
    assert matches_reference(groups, [["a"] * 4, [None] * 4]).tolist() == [[1.0, 1.0, 0.0, 0.0], [0.0] * 4]


def test_an_anchor_can_be_right_where_every_rollout_is_wrong():
    found = credit.build("cat")({"rewards": [0, 0], "answers": ["1", "2"], "reference": ["3", "3"]})
    assert not found.advantages[0].any()
    vote = credit.build("ttrl")({"rewards": [0, 0, 0], "answers": ["1", "1", "2"]})
    assert vote.advantages[0][0] > 0  # the majority is believed, right or wrong
