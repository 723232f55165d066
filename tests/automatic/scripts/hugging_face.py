"""The Trainer of Hugging Face: two micro-batches a step, an evaluation after each epoch."""

import math

import torch
from told import Told
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(0)
told, received = Told(), []
sizes = {"vocab_size": 32, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
ids = torch.randint(0, 32, (40, 12), generator=torch.Generator().manual_seed(1))
rows = [{"input_ids": row, "labels": row} for row in ids]


class Tells(Trainer):
    """Tells what its micro-batches bring."""

    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        received.append(loss.item())
        return loss


trainer = Tells(
    model,
    TrainingArguments(
        output_dir="trainer",
        per_device_train_batch_size=4,
        per_device_eval_batch_size=8,
        gradient_accumulation_steps=2,
        num_train_epochs=2,
        learning_rate=1e-2,
        eval_strategy="epoch",
        save_strategy="epoch",
        report_to=[],
        logging_steps=1,
        disable_tqdm=True,
        use_cpu=True,
    ),
    train_dataset=rows,
    eval_dataset=rows[:16],
)
trainer.log = lambda logs, *_, **__: trainer.state.log_history.append(logs)
trainer.train()
rates = [entry["learning_rate"] for entry in trainer.state.log_history if "learning_rate" in entry]
for number, lr in enumerate(rates):
    known = {"samples": 8, "step_tokens": 96} if number else {}
    told.step(math.fsum(received[2 * number : 2 * number + 2]), lr, epoch=(number + 1) / 5, **known)
told.done(model, steps_of_trainer=trainer.state.global_step)
