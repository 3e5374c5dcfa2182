import pytest

from polypath import credit
from polypath.core.errors import UserError
from polypath.core.recipe_types import Call


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rarty", "there is no method named 'rarty'. Did you mean rarity?"),
        ({"rarity": {"alfa": 1}}, "method rarity.alfa: no knob named 'alfa'. Did you mean alpha?"),
        ({"rarity": {"alpha": "x"}}, "method rarity signal.rarity.alpha: 'x' does not fit. Expected a number."),
        (
            {"rarity": {"alpha": float("nan")}},
            "method rarity signal.rarity.alpha: nan does not fit. Expected a number.",
        ),
        # Without a buffer the penalty of an answer of exactly max_length would be 0/0.
        ({"dapo": {"buffer": 0}}, "buffer: 0 does not fit. Expected a whole number at least 1."),
        ({"grpo": {"eps": -1}}, "eps: -1 does not fit. Expected a number at least 0."),
        ({"grpo": {"ddof": 5}}, "ddof: 5 does not fit. Expected one of 0, 1."),
        ({"rarity": {"partition": "same_txt"}}, "no partition named 'same_txt'. Did you mean same_text?"),
        ({"darling": {"floor": {"linaer": {}}}}, "no schedule named 'linaer'. Did you mean linear?"),
        ([{"signal": "rarity"}], "no stage gives advantages. End with a normalise stage"),
        ([{"fuse": "additive"}, {"normalise": "centre"}], "no stage gives 'diversity'. Add a signal stage before it."),
        ([{"normalize": "centre"}], "'normalize' is not a kind of stage. Did you mean normalise?"),
        ([{"normalise": "zscore"}], "no normalise named 'zscore'. Did you mean z_score?"),
        ([{"fuse": {"overlong": {"buffer": 3}}}], "fuse.overlong: max_length must be given"),
        ([{"normalise": {"centre": {}, "z_score": {}}}], "cannot read"),
        (3, "cannot read 3"),
        ("none.yaml", "there is no method named 'none.yaml'"),
        ({"credit": [], "sumary": ""}, "method inline.sumary: unknown key. Did you mean summary?"),
        ({"credit": [{"signal": {"rarity": {"alpha": "$a"}}}]}, "$a is used but no such knob is declared"),
    ],
)
def test_mistakes_are_named_with_a_way_out(spec, message):
    with pytest.raises(UserError) as caught:
        credit.build(spec)
    assert message in str(caught.value)


def test_the_same_pipeline_in_every_spelling(tmp_path):
    stages = [{"normalise": {"z_score": {"eps": 1e-4, "ddof": 1}}}]
    path = tmp_path / "own.yaml"
    path.write_text("credit: [{normalise: {z_score: {eps: 1e-4, ddof: $ddof}}}]\nknobs: {ddof: 1}\n")  # 1e-4 is text
    calls = [Call("normalise", "z_score", {"eps": 1e-4, "ddof": 1})]
    texts = {
        credit.build(spec).describe().split("\n")[1]
        for spec in (
            stages,
            stages[0],
            calls,
            calls[0],
            {"credit": stages},
            str(path),
            "grpo",
            {"grpo": None},
            Call("credit", "grpo"),
        )
    }
    assert texts == {"  normalise z_score(eps=0.0001, ddof=1): rewards -> advantages"}


def test_a_whole_stage_can_be_a_knob():
    quantile = {"gate": {"quality_quantile": {"quantile": 0.5}}}
    group = {"rewards": [3.0, 2.0, 1.0], "texts": ["a b c", "a b c", "x y"]}
    # the median is 2, so the first two are gated; they share all n-grams and keep .4 of their reward
    fused = credit.build({"dpwriter_reward": quantile})(group).fields[0]["rewards"]
    assert fused.tolist() == pytest.approx([1.2, 0.8, 1.0])
    as_call = {"gate": Call("gate", "quality_quantile", {"quantile": 0.5})}
    assert (
        credit.build({"dpwriter_reward": quantile}).describe() == credit.build({"dpwriter_reward": as_call}).describe()
    )


def test_the_loss_comes_with_the_method():
    loss = credit.build({"grpo": {"clip": 0.1}}).loss
    assert (loss.kind, loss.name, loss.knobs["low"], loss.knobs["aggregate"]) == (
        "loss",
        "policy_clip",
        0.1,
        "sequence_mean",
    )
    assert credit.build([{"normalise": "centre"}]).loss is None


def test_a_file_that_is_no_method(tmp_path):
    for text, message in (("a: [", "is not YAML"), ("- 1", "is not a method"), ("summary: x", "has no credit")):
        path = tmp_path / f"{len(text)}.yaml"
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            credit.build(str(path))
