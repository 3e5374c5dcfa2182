from polypath.diversity.features import ngrams, tokens


def test_cjk_is_split_per_character_inside_other_text():
    assert tokens("GRPO算法 works") == ["GRPO", "算", "法", "works"]
    assert tokens("한국어") == ["한", "국", "어"]


def test_accents_numbers_and_marks():
    assert tokens("café x_1 3.5!") == ["café", "x_1", "3", ".", "5", "!"]
    assert tokens("") == []


def test_a_short_text_has_no_long_ngrams():
    assert ngrams(["a", "b"], [2, 3]) == {("a", "b")}
    assert ngrams([], [1]) == set()
