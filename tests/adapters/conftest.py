"""A TRL trainer on the fixed rollouts of trl_table, and one step of it."""

from types import SimpleNamespace

import pytest

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")
transformers = pytest.importorskip("transformers")

from trl_table import PROMPTS, WORDS, G, fixed_rollouts, table_reward, tiny_llama  # noqa: E402

from polypath.adapters.trl import DiverseGRPOTrainer  # noqa: E402
from polypath.engines.tiny import word_tokenizer  # noqa: E402


@pytest.fixture
def make_config(tmp_path):
    def make(**changes):
        settings = {
            "output_dir": str(tmp_path / "out"),
            "use_cpu": True,
            "bf16": False,
            "learning_rate": 0.0,
            "max_grad_norm": 0.0,
            "num_generations": G,
            "per_device_train_batch_size": G * len(PROMPTS),
            "max_completion_length": 8,
            "max_steps": 1,
            "logging_steps": 1,
            "beta": 0.0,
            "report_to": "none",
            "save_strategy": "no",
            "disable_tqdm": True,
            "loss_type": "dapo",
        }
        return trl.GRPOConfig(**settings | changes)

    return make


@pytest.fixture
def make_trainer(make_config):
    """A trainer on the fixed rollouts: ours with `credit`, else TRL's own."""

    def make(config=None, reward=table_reward, rollouts=fixed_rollouts, model=None, **options):
        kind = DiverseGRPOTrainer if "credit" in options else trl.GRPOTrainer
        return kind(
            tiny_llama() if model is None else model,
            reward,
            config or make_config(),
            train_dataset=datasets.Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
            processing_class=word_tokenizer(WORDS),
            rollout_func=rollouts,
            **options,
        )

    return make


@pytest.fixture
def one_step():
    """Train one step; return the batch that TRL trained on, its loss and its gradients."""

    def run(trainer):
        seen = SimpleNamespace(loss=0.0, gradients={}, batch=None)
        score, loss = trainer._generate_and_score_completions, trainer.compute_loss

        def scored(inputs):
            seen.batch = score(inputs)
            seen.prompts = [row["prompt"] for row in inputs]
            return seen.batch

        def counted(*args, **kwargs):
            value = loss(*args, **kwargs)
            seen.loss += float(value.detach())
            return value

        class Keep(transformers.TrainerCallback):
            def on_pre_optimizer_step(self, args, state, control, model=None, **_):
                seen.gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

        trainer._generate_and_score_completions, trainer.compute_loss = scored, counted
        trainer.add_callback(Keep())
        trainer.train()
        return seen

    return run
