"""A GAN: two backward passes for the critic, one for the generator, an optimizer each; with or without loader."""

import math
import sys

import torch
from told import Told, dataset, small_model
from torch.utils.data import DataLoader

generator, critic, told = small_model(4), small_model(), Told()
of_critic = torch.optim.Adam(critic.parameters(), lr=0.01)
of_generator = torch.optim.Adam(generator.parameters(), lr=0.02)
say = torch.nn.BCEWithLogitsLoss()
data = dataset(48)
batches = DataLoader(data, batch_size=8) if sys.argv[1] == "loader" else data.tensors[0].split(8)
for batch in batches:
    real = batch[0] if sys.argv[1] == "loader" else batch
    of_critic.zero_grad()
    on_real = say(critic(real), torch.ones(8, 1))
    on_real.backward()
    fake = generator(torch.randn(8, 4))
    on_fake = say(critic(fake.detach()), torch.zeros(8, 1))
    on_fake.backward()
    of_critic.step()
    of_generator.zero_grad()
    fooled = say(critic(fake), torch.ones(8, 1))
    fooled.backward()
    of_generator.step()
    losses = [math.fsum([on_real.item(), on_fake.item()]), fooled.item()]
    told.step(losses[0], 0.01, losses=losses)
told.done(generator, critic)
