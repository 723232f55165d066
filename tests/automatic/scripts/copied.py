"""The watched model is copied, pickled, saved, traced and called by copies; and a class of the script is pickled."""

import copy
import io
import pickle

import torch
from told import Told, dataset, sha, small_model
from torch import nn
from torch.utils.data import DataLoader


class Wrapped(nn.Module):
    """A model of the script's own."""

    def __init__(self):
        super().__init__()
        self.inner = small_model()

    def forward(self, x):
        return self.inner(x)


model, told = Wrapped(), Told()
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
keys = []
for x, y in DataLoader(dataset(), batch_size=8):
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    told.step(loss.item(), 0.1, samples=8)
    same = pickle.loads(pickle.dumps(model))
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    saved = torch.load(file, weights_only=False)
    twin = copy.deepcopy(model)
    keys.append([sorted(vars(twin)), sha(same, saved, twin), torch.equal(twin.eval()(x), same.eval()(x))])
    traced = torch.fx.symbolic_trace(model)
    exported = torch.jit.trace(twin, x)
    keys.append([str(traced.code), str(exported.code)])
told.done(model, average, keys=keys)
