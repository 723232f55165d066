"""What the document on *surogate metrics* promises of mixtures of experts: statistics, and when they are healthy."""

import math

import pytest

import stepscope

from .absence import command
from .rows import rows

MOE = pytest.mark.waits("stepscope.router_statistics")


def statistics(logits, **options):
    """The document's dictionary for router logits of shape (tokens, experts)."""
    of_router = stepscope.router_statistics  # what waits for it fails here
    import torch

    return of_router(torch.tensor(logits), top_k=1, **options)


def routed(*counts):
    """Logits that send so many tokens to each expert, for certain."""
    return [
        [50.0 if expert == chosen else 0.0 for expert in range(len(counts))]
        for chosen, n in enumerate(counts)
        for _ in range(n)
    ]


@MOE
@pytest.mark.promise("surogate/moe-utilization", "surogate/moe-utilization-range")
def test_utilization_is_the_share_of_experts_with_tokens():
    """“Fraction of experts receiving tokens (average across layers)”: “`expert_utilization` | float | 0-1”."""
    assert statistics(routed(4, 4, 0, 0))["expert_utilization"] == pytest.approx(0.5)
    assert statistics(routed(2, 2, 2, 2))["expert_utilization"] == pytest.approx(1.0)


@MOE
@pytest.mark.promise("surogate/moe-imbalance", "surogate/moe-imbalance-range", "surogate/moe-perfect")
def test_imbalance_is_the_largest_count_over_the_mean():
    """“Ratio of max to mean token counts per expert”: “`load_imbalance` | float | ≥1”, “(1.0 = perfect)”."""
    assert statistics(routed(6, 2, 0, 0))["load_imbalance"] == pytest.approx(3.0)
    assert statistics(routed(2, 2, 2, 2))["load_imbalance"] == pytest.approx(1.0)


@MOE
@pytest.mark.promise("surogate/moe-aux-loss", "surogate/moe-aux-loss-range")
def test_aux_loss_grows_with_imbalance():
    """“Load balancing auxiliary loss (sum across layers)”: “`aux_loss` | float | ≥0”, E · Σ share · probability."""
    balanced, collapsed = statistics(routed(2, 2, 2, 2)), statistics(routed(8, 0, 0, 0))
    assert collapsed["aux_loss"] == pytest.approx(4 * balanced["aux_loss"], rel=0.01)
    assert balanced["aux_loss"] > 0


@MOE
@pytest.mark.promise("surogate/moe-z-loss", "surogate/moe-z-loss-range")
def test_z_loss_is_the_squared_log_sum_of_the_logits():
    """“Router z-loss for logit regularization (sum across layers)”: “`z_loss` | float | ≥0”."""
    small, large = statistics([[0.0, 0.0]]), statistics([[10.0, 10.0]])
    ratio = (10 + math.log(2)) ** 2 / math.log(2) ** 2
    assert large["z_loss"] == pytest.approx(ratio * small["z_loss"], rel=1e-4)
    assert small["z_loss"] > 0


def stats_of_model(tmp_path):
    """A tiny Qwen3-MoE of random weights, watched for one step: the statistics before and after it, and the run."""
    assert callable(stepscope.router_statistics)
    import torch
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    small = {"hidden_size": 32, "intermediate_size": 64, "moe_intermediate_size": 16, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2}
    model = Qwen3MoeForCausalLM(Qwen3MoeConfig(vocab_size=64, **small, **heads))
    optimizer = torch.optim.AdamW(model.parameters())
    with stepscope.init(output_dir=str(tmp_path), verbosity=-2) as run:
        trainer = stepscope.watch(model, optimizer, run)
        before = trainer.get_moe_stats()
        with trainer.step():
            tokens = torch.randint(64, (2, 16))
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
        moe_stats = trainer.get_moe_stats()
        trainer.close()
    return before, moe_stats, stepscope.read_run(run.path)


@MOE
@pytest.mark.promise("surogate/api-get-moe-stats", "surogate/api-moe-stats-keys")
def test_the_trainer_gives_the_documents_dictionary(tmp_path):
    """“trainer.get_moe_stats()”: “Returns: {'aux_loss': float, 'z_loss': float” and the others, valid once routed."""
    before, moe_stats, _ = stats_of_model(tmp_path)
    assert {name: type(value) for name, value in moe_stats.items()} == {
        "aux_loss": float,
        "z_loss": float,
        "expert_utilization": float,
        "load_imbalance": float,
        "valid": bool,
    }
    assert (before["valid"], moe_stats["valid"]) == (False, True)


@MOE
@pytest.mark.promise("surogate/moe-health")
def test_routers_are_found_in_the_model(tmp_path):
    """“additional metrics track router health”: of a Qwen3-MoE without a line of code for it."""
    _, moe_stats, run = stats_of_model(tmp_path)
    logged = run.records("moe")[-1]
    assert logged.expert_utilization == pytest.approx(moe_stats["expert_utilization"])
    assert logged.load_imbalance == pytest.approx(moe_stats["load_imbalance"])


HEALTHY = {"aux_loss": 0.01, "z_loss": 0.001, "utilization": 1.0, "imbalance": 1.2}


def verdict(tmp_path, **changes):
    """What the doctor says of 100 steps with these statistics, the others healthy."""
    assert callable(stepscope.router_statistics)  # the rules come with the measurement
    with stepscope.TrainingRunLogger(tmp_path / "log.json", verbosity=-2) as log:
        for step in range(100):
            log.log_step(step, 0.1, 1024, 20, 0.7, 3.1, 1e-4)
            log.log_moe_stats(step, **{**HEALTHY, **changes})
    return command("doctor", tmp_path / "log.json", "--json").replace(" ", "")


@MOE
@pytest.mark.parametrize(
    ("name", "least", "most"),
    rows(
        "surogate",
        {
            "moe-aux-loss-healthy": ("aux_loss", 0.001, 0.1),
            "moe-z-loss-healthy": ("z_loss", 0.0001, 0.01),
            "moe-utilization-healthy": ("utilization", 0.8, 1.0),
            "moe-imbalance-healthy": ("imbalance", 1.0, 2.0),
        },
    ),
)
def test_the_healthy_range_raises_nothing(tmp_path, name, least, most):
    """“Healthy Range”: at both ends of it the doctor has nothing to say."""
    for number, value in enumerate((least, most)):
        (tmp_path / str(number)).mkdir()
        assert '"severity"' not in verdict(tmp_path / str(number), **{name: value})


@MOE
@pytest.mark.parametrize(
    ("changes", "word"),
    rows(
        "surogate",
        {
            "moe-aux-loss-warning": ({"aux_loss": 1.1}, "imbalance"),
            "moe-z-loss-warning": ({"z_loss": 0.11}, "collapse"),
            "moe-utilization-warning": ({"utilization": 0.45}, "unused"),
            "moe-imbalance-warning": ({"imbalance": 3.1}, "distribution"),
        },
    ),
)
def test_a_warning_sign_is_a_warning(tmp_path, changes, word):
    """“Warning Signs”: beyond the limit the doctor warns, and says what it may mean in the document's word."""
    said = verdict(tmp_path, **changes)
    assert '"severity":"warning"' in said
    assert word in said


@MOE
@pytest.mark.parametrize(
    "changes",
    rows("surogate", {"practice-utilization": {"utilization": 0.65}, "practice-imbalance": {"imbalance": 2.6}}),
)
def test_a_best_practice_that_is_not_kept_is_mentioned(tmp_path, changes):
    """“For MoE models”: between the best practice and the warning sign the doctor informs, and does not warn."""
    said = verdict(tmp_path, **changes)
    assert '"severity":"info"' in said
    assert '"severity":"warning"' not in said
