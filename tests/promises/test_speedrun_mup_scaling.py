"""What the document on *speedrun-mup* promises of muP and of the spectral norms."""

import pytest

import stepscope

from .absence import make
from .rows import rows

MUP = pytest.mark.waits("stepscope.mup")
COORDINATES = pytest.mark.waits("stepscope.coordinate_check")
SPECTRAL = pytest.mark.waits("stepscope.spectral_norms")
COST = pytest.mark.waits("make bench-cost")


def network(width):
    """A network of two hidden layers."""
    import torch

    layers = [torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 4))


@MUP
@pytest.mark.promise("speedrun/mup-shapes", "speedrun/feature-mup")
def test_every_parameter_knows_its_dimensions():
    """“InfShape dimension tracking for all parameters”.

    “Standard MuP implementation with InfShape dimension tracking”: multiples and infinite dimensions as usual.
    """
    mup = stepscope.mup
    model = mup.set_base_shapes(network(256), network(64))
    assert [parameter.infshape.width_mult() for parameter in model.parameters()] == [1, 4, 4, 4, 4, 1]
    assert [parameter.infshape.ninf() for parameter in model.parameters()] == [1, 1, 2, 1, 1, 0]


@MUP
@pytest.mark.promise("speedrun/mup-init")
def test_hidden_weights_shrink_with_the_width():
    """“MuP-aware initialization”: a hidden weight's deviation falls with the root of the width."""
    mup = stepscope.mup
    import torch

    torch.manual_seed(0)
    model = mup.set_base_shapes(network(1024), network(256))
    mup.init.normal_(model[2].weight, std=1.0)
    assert float(model[2].weight.std()) == pytest.approx(0.5, rel=0.01)


@MUP
@pytest.mark.promise("speedrun/mup-optimizers")
def test_hidden_weights_learn_more_slowly():
    """“initialization and optimizers”: Adam's rate of a hidden weight is divided by the width's multiple."""
    mup = stepscope.mup
    model = mup.set_base_shapes(network(256), network(64))
    groups = mup.MuAdamW(model.parameters(), lr=1e-2).param_groups
    rates = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
    assert rates[id(model[2].weight)] == pytest.approx(2.5e-3)
    assert rates[id(model[0].weight)] == pytest.approx(1e-2)


@MUP
@pytest.mark.promise("speedrun/mup-output")
def test_the_output_is_divided_by_the_width():
    """“Output layer scaling”: the readout of four times the width gives a quarter."""
    mup = stepscope.mup
    import torch

    readout, base = mup.MuReadout(256, 4, bias=False), mup.MuReadout(64, 4, bias=False)
    mup.set_base_shapes(readout, base, rescale_params=False)
    x = torch.randn(2, 256)
    torch.testing.assert_close(readout(x), x @ readout.weight.T / 4)


@COORDINATES
@pytest.mark.promise(
    "speedrun/transfer",
    "speedrun/mup-coordinates",
    "speedrun/mup-widths",
    "speedrun/validation-check",
    "speedrun/validation-stable",
)
def test_activations_are_stable_across_widths_with_mup():
    """“scaling and coordinate checking” find that “activation statistics remain stable across widths”.

    “Support for width scaling experiments”, “coordinate checking functionality to validate MuP correctness”: what
    “enables zero-shot hyperparameter transfer across model widths”.
    """
    check = stepscope.coordinate_check
    import torch

    def model(width):
        return stepscope.mup.set_base_shapes(network(width), network(64))

    assert check(model, widths=[64, 128, 256, 512], data=torch.randn(32, 8), steps=4).passed


@COORDINATES
@pytest.mark.promise("speedrun/validation-unstable")
def test_activations_grow_with_the_width_without_mup():
    """“activation magnitudes vary significantly with width” where the parametrization is the usual one."""
    check = stepscope.coordinate_check
    import torch

    assert not check(network, widths=[64, 128, 256, 512], data=torch.randn(32, 8), steps=4).passed


MODES = {"spectral-fast": ("ns5-fast", 0.20), "spectral-accurate": ("ns3-accurate", 0.02)}


@SPECTRAL
@pytest.mark.parametrize(("method", "error"), rows("speedrun", MODES))
def test_the_mode_is_a_close_lower_bound(method, error):
    """“Advanced Spectral Norm Monitoring”: each mode by its name, never above the norm, within its error."""
    norms = stepscope.spectral_norms
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(256, 512)
    exact = float(torch.linalg.matrix_norm(model.weight.detach().double(), 2))
    assert (1 - error) * exact <= float(norms(model, method=method)["weight"]) <= exact * (1 + 1e-5)


@SPECTRAL
@pytest.mark.promise("speedrun/spectral-bf16")
def test_bf16_weights_stay_bf16():
    """“Fully compatible with mixed-precision training”: of a bf16 model, which is not converted."""
    norms = stepscope.spectral_norms
    import torch

    model = torch.nn.Linear(128, 128, dtype=torch.bfloat16)
    exact = float(torch.linalg.matrix_norm(model.weight.detach().double(), 2))
    assert float(norms(model, method="ns5-fast")["weight"]) == pytest.approx(exact, rel=0.2)
    assert model.weight.dtype == torch.bfloat16


@SPECTRAL
@pytest.mark.promise("speedrun/spectral-fallback")
def test_an_unstable_iteration_falls_back():
    """“Automatic fallback to traditional power iteration”: also where squares overflow."""
    norms = stepscope.spectral_norms
    import torch

    model = torch.nn.Linear(64, 64, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.eye(64) * 1e30)
    assert float(norms(model, method="ns3-accurate")["weight"]) == pytest.approx(1e30, rel=0.02)


@COST
@pytest.mark.parametrize(
    "claim",
    rows(
        "speedrun",
        {
            "cost-light": "Lightweight monitoring",
            "cost-newton-schulz": "Newton-Schulz spectral norm",
            "cost-activations": "Activation statistics",
            "cost-svd": "Traditional spectral norm",
        },
    ),
)
def test_the_claim_is_measured(claim):
    """“Performance Overhead”: beside the claim stands what was measured."""
    rows_of_table = [line for line in make("bench-cost").splitlines() if claim in line]
    assert any(" ms" in line for line in rows_of_table)
