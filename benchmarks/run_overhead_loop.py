"""A plain training loop of about 10 ms a step that does a block of steps whenever it is asked, through two pipes.

python run_overhead_loop.py WIDTH ASKED ANSWERED          # "100" → seconds that 100 steps took
stepscope run run_overhead_loop.py …                      # the same, watched
traceml run run_overhead_loop.py … traceml                # with the two lines that TraceML needs
"""

import sys
import time
from contextlib import nullcontext

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# Whoever has freed a large block before has glibc serve the next ones from its heap, which makes every step some ten
# percent quicker. That must not be what tells two processes apart.
for megabytes in (1, 4, 16, 31):
    del [bytearray(megabytes << 20)][:]

width, asked, answered = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(64 * 50, width), torch.randn(64 * 50, 1))
step_of = nullcontext
if "traceml_ai" in sys.modules:
    import traceml_ai as traceml

    traceml.init(mode="auto")
    step_of = lambda: traceml.trace_step(model)  # noqa: E731


def batches():
    """For ever, an epoch of fifty after another."""
    while True:
        yield from DataLoader(data, batch_size=64)


def train(steps, source):
    """The steps that were asked for."""
    for _ in range(steps):
        with step_of():
            x, y = next(source)
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


with open(asked) as questions, open(answered, "w") as answers:
    source = batches()
    for line in questions:
        begin = time.perf_counter()
        train(int(line), source)
        print(time.perf_counter() - begin, file=answers, flush=True)
