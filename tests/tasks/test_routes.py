import itertools

import pytest

from polypath.core.errors import UserError
from polypath.tasks.routes import Routes, make_prompt

TASK = Routes(problems=400)
NAMES = ("start", "via", "goal")


def brute_force(task, start, via, goal, slack=4, max_towns=11):
    """Independent oracle: grow every walk breadth first, without any pruning by distance."""
    near = {town: set() for town in task.coordinates()}
    for a, b in task.edges():
        near[a].add(b)
        near[b].add(a)
    walks, complete = [[start]], []
    for _ in range(max_towns - 1):
        walks = [[*walk, town] for walk in walks if walk[-1] != goal for town in near[walk[-1]] - set(walk)]
        complete += [walk for walk in walks if walk[-1] == goal and via in walk]
    shortest = min(map(len, complete), default=0)
    return {" ".join(walk) for walk in complete if len(walk) <= shortest + slack}


def test_the_map_is_the_laboratorys():
    edges, place = TASK.edges(), TASK.coordinates()
    assert len(place) == len(set(place.values())) == 36
    # a 6 x 6 grid has 2 * 6 * 5 = 60 streets; 25 % removed leaves 45; 4 shortcuts are added
    assert len(edges) == len({frozenset(edge) for edge in edges}) == 49
    lengths = [abs(place[a][0] - place[b][0]) + abs(place[a][1] - place[b][1]) for a, b in edges]
    assert sum(length == 1 for length in lengths) == 45
    reached, frontier = {"A1"}, ["A1"]
    while frontier:
        town = frontier.pop()
        new = {b if a == town else a for a, b in edges if town in (a, b)} - reached
        reached |= new
        frontier += new
    assert len(reached) == 36
    assert Routes(map_seed=1).edges() != edges == Routes().edges()


def test_routes_equal_brute_force():
    for prompt in TASK.prompts("train", n=12):
        expected = brute_force(TASK, *(prompt.data[name] for name in NAMES))
        assert TASK.solutions(prompt) == expected == set(TASK.demonstrations(prompt))
        assert all(TASK.verify(prompt, text).correct for text in expected)


def test_mean_number_of_routes():
    # methods: about 21 valid routes per problem
    prompts = Routes(problems=2000).prompts("train", n=800)
    assert 18 < sum(len(TASK.solutions(p)) for p in prompts) / len(prompts) < 23


def test_vocabulary_covers_everything():
    words = TASK.vocabulary()
    assert len(words) == len(set(words)) == 39  # 36 towns, ">", pad, eos
    for prompt in TASK.prompts("dev", n=10):
        assert set(" ".join([prompt.text, *TASK.demonstrations(prompt)]).split(" ")) <= set(words)


def test_splits_are_disjoint_for_both_directions():
    content = {}
    for split in ("train", "dev", "test"):
        prompts = TASK.prompts(split, n=10_000)
        content[split] = {(frozenset((p.data["start"], p.data["goal"])), p.data["via"]) for p in prompts}
        assert len({p.id for p in prompts}) == len(prompts)
    for a, b in itertools.combinations(content.values(), 2):
        assert not a & b
    assert sum(len(TASK.prompts(split, n=10_000)) for split in content) == 400


def test_wrong_routes():
    prompt = TASK.prompts("train", n=1)[0]
    start, via, goal = (prompt.data[name] for name in NAMES)
    good = TASK.demonstrations(prompt)[0].split()
    assert TASK.verify(prompt, " \n".join(good) + " ").correct
    backwards, twice, cut = good[::-1], [*good[:2], *good], good[:-1]
    for wrong in (backwards, twice, cut, [start, via, goal, start]):
        score = TASK.verify(prompt, " ".join(wrong))
        assert (score.correct, score.reward, score.valid) == (False, 0.0, True)
    for garbage in ("", " ", "A1 -> B1", "Z9", "\x00", " ".join(good) + " ."):
        score = TASK.verify(prompt, garbage)
        assert (score.correct, score.valid, score.canonical) == (False, False, None)


@pytest.mark.parametrize(
    "knobs", [{"side": 2}, {"removed": 0.6}, {"shortcuts": 9999}, {"max_towns": 40}, {"slack": -1}, {"problems": 0}]
)
def test_impossible_knobs_are_user_errors(knobs):
    with pytest.raises(UserError):
        Routes(**knobs)


def test_an_errand_without_route_has_no_solution():
    near = next(a for a, b in TASK.edges() if b == "F6")
    blocked = Routes(problems=1, max_towns=3)
    assert blocked.solutions(make_prompt("A1", near, "F6")) == frozenset()
