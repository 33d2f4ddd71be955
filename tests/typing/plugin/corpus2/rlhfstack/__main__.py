"""Run all three stages."""

import torch

from typedbatch import Batch, validate

from rlhfstack.model import EOS, VOCAB, Model, generate, supervised_loss
from rlhfstack.records import Prompts, Supervised
from rlhfstack.reward import score
from rlhfstack.update import experience, ppo


def warm_start(model: Model, steps: int) -> Batch:
    opt = torch.optim.Adam(model.parameters(), lr=0.05)
    curve = Batch(loss=torch.zeros(steps))
    for i in range(steps):
        text = Batch(tokens=torch.randint(1, VOCAB, (6, 5)))
        text.mask = (text.tokens != EOS).float()
        loss = supervised_loss(model, validate(text, Supervised))
        opt.zero_grad()
        loss.backward()
        opt.step()
        curve.loss[i] = loss.item()
    curve.final = curve.loss[-1].item()
    return curve


def main() -> None:
    torch.manual_seed(0)
    model, ref = Model(), Model()
    curve = warm_start(model, 5)
    print("supervised", float(curve["final"]))
    ref.load_state_dict(model.state_dict())
    opt = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(3):
        prompts = Prompts(prompt=torch.randint(1, VOCAB, (8,)), source=torch.arange(8) % 2)
        done = generate(model, prompts, 6)
        rewarded = score(done, ref, 0.01 * step)
        #! wrong-argument: rewarded = score(prompts, ref, 0.01 * step)
        exp = experience(rewarded, model, 0.05)
        info = ppo(model, opt, exp)
        #! wrong-argument: info = ppo(model, opt, rewarded)
        info.step = step
        info.score = rewarded.score.mean().item()
        print(int(info.step), f"score {info.score:.3f}", {k: round(float(v), 3) for k, v in info.items()})


if __name__ == "__main__":
    main()
