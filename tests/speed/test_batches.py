"""What a batch holds: samples and tokens, or nothing where it cannot be told."""

import pytest
import torch

from stepscope.speed.batches import count, fed, length_of

ids, mask, image, label = (
    torch.zeros(2, 5, dtype=torch.int64),
    torch.ones(2, 5, dtype=torch.int64),
    torch.zeros(4, 3, 8, 8),
    torch.zeros(4, dtype=torch.int64),
)


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        (ids, (2, 10)),
        ((image, label), (4, 0)),
        ([image, {"label": label}], (4, 0)),
        ({"attention_mask": mask, "input_ids": ids}, (2, 10)),
        ({"inputs": {"input_ids": ids}}, (2, 10)),
        ({"input_values": torch.zeros(2, 9), "attention_mask": mask}, (2, 0)),
        ((torch.zeros(2, 7), ids), (2, 0)),
        (torch.tensor(3.0), (0, 0)),
        ("text", (0, 0)),
        ({"names": ["a", "b"]}, (0, 0)),
        (None, (0, 0)),
    ],
)
def test_a_batch_is_counted(batch, found):
    """Samples are the first dimension of its first tensor; tokens are integer ids there, not in a mask or a label."""
    assert count(batch) == found


def test_what_a_module_is_given():
    """Positional arguments come first; without a tensor nothing is known."""
    assert fed((ids,), {"labels": ids}) == (2, 10)
    assert fed((), {"input_ids": ids}) == (2, 10)
    assert fed((3,), {}) is None


def test_a_batch_that_contains_itself_ends():
    """Whatever a loader yields, counting it ends."""
    endless: list = []
    endless.append(endless)
    assert count(endless) == (0, 0)


def test_a_length_is_known_or_not():
    """An endless loader, one that lies about its length and one that raises have none."""

    class Raises:
        def __len__(self):
            raise RuntimeError

    assert [length_of(it) for it in ([1, 2], iter([1]), Raises())] == [2, None, None]
