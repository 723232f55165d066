"""Models inside what compiles, replicates or shards them."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from stepscope.speed.flops import FlopsUnknown, of_step

from .flop_models import encoder, gpt

IDS = torch.randint(1, 256, (2, 32), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def plain():
    """What the unwrapped model costs."""
    return of_step(gpt(), (IDS,))


@pytest.fixture
def group():
    """A process group of one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_compiled_model_costs_what_it_is_made_of(plain):
    """The wrapper, a compiled part and a model compiled in place: none of them is compiled for counting."""
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    whole, part, in_place = torch.compile(gpt(), backend=backend), gpt(), gpt()
    part.blocks[1] = torch.compile(part.blocks[1], backend=backend)
    in_place.compile(backend=backend)
    for model in (whole, part, in_place):
        assert of_step(model, (IDS,)) == plain
    assert compiled == []


def test_what_was_compiled_stays_compiled():
    """Counting neither compiles again nor forgets what was compiled."""
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    model = torch.compile(encoder(), backend=backend)
    model(IDS).sum().backward()
    before = len(compiled)
    assert before > 0
    of_step(model, (IDS,))
    model(IDS).sum().backward()
    assert len(compiled) == before


def test_replicas_are_counted_once(plain, group):
    """Data parallelism costs each rank what the model costs it."""
    assert of_step(nn.parallel.DistributedDataParallel(gpt()), (IDS,)) == plain


def test_a_sharded_model_is_counted_whole(plain, group):
    """Every token meets all of a sharded weight."""
    from torch.distributed.fsdp import fully_shard

    model = gpt()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    assert of_step(model, (IDS,)) == plain


def test_a_sharded_model_runs_in_its_policy_s_format(group):
    """Weights that are kept in FP32 and gathered in BF16 are multiplied in BF16."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = fully_shard(gpt(), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    assert set(of_step(model, (IDS,)).by_dtype["blocks"]) == {"bf16"}


def test_a_forward_pass_that_communicates_is_not_run(group):
    """A collective of one rank alone would wait for ever: it is refused before it begins."""

    class Communicating(nn.Linear):
        def forward(self, x):
            x = super().forward(x)
            dist.all_reduce(x)
            return x

    with pytest.raises(FlopsUnknown, match="exchanges data with other processes"):
        of_step(Communicating(4, 4), (torch.zeros(2, 4),))
