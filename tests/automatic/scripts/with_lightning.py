"""Lightning: the backward pass runs inside the optimizer's closure, the module's shell is never called."""

import logging
import math
import sys

import lightning
import torch
from told import Told, dataset, small_model
from torch.utils.data import DataLoader

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
told, received, every = Told(), [], int(sys.argv[1])


class Shell(lightning.LightningModule):
    """Around the small model."""

    def __init__(self):
        super().__init__()
        self.model = small_model()

    def training_step(self, batch, at):
        loss = ((self.model(batch[0]) - batch[1]) ** 2).mean()
        received.append(loss.item() / every)
        return loss

    def validation_step(self, batch, at):
        self.log("loss", ((self.model(batch[0]) - batch[1]) ** 2).mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


shell = Shell()
silent = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", accumulate_grad_batches=every, **silent)
trainer.fit(shell, DataLoader(dataset(48), batch_size=8), DataLoader(dataset(16), batch_size=8))
for number in range(12 // every):
    loss = math.fsum(received[every * number : every * number + every])
    told.step(loss, 0.1, samples=8 * every, epoch=(number + 1) * every / 6)
told.done(shell, steps_of_trainer=trainer.global_step)
