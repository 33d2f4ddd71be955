"""DAgger as distillation: the student drives, the teacher labels, .grad accumulated by hand, disabled scaler, EMA for evaluation."""
import gymnasium as gym
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from typedbatch import Batch

TEMPERATURE, CHUNKS = 2.0, 3

def setup(seed: int = 0):
    torch.manual_seed(seed)
    teacher = nn.Linear(4, 2)  # balances the pole
    with torch.no_grad():
        teacher.weight.copy_(torch.tensor([[-0.2, -0.5, -4.0, -2.0], [0.2, 0.5, 4.0, 2.0]]))
        teacher.bias.zero_()
    student = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    shadow = AveragedModel(student, multi_avg_fn=get_ema_multi_avg_fn(0.9))  # only evaluated, by evaluate() below
    optimizer, scaler = torch.optim.AdamW(student.parameters(), lr=3e-3, weight_decay=1e-4), torch.amp.GradScaler("cpu", enabled=False)
    env, dataset, rounds = gym.make("CartPole-v1", max_episode_steps=150), [], [0]

    @torch.no_grad()
    def rollout(mixture, **kwargs):
        state, over = torch.as_tensor(env.reset(**kwargs)[0]), False
        student.eval()
        while not over:
            labels = teacher(state)
            logits = labels if torch.rand(()) < mixture else student(state[None])[0]
            dataset.append(Batch(states=state, teacher_logits=labels))
            after, _, terminated, truncated, _ = env.step(int(logits.argmax()))
            state, over = torch.as_tensor(after), terminated or truncated

    def draw(n=90):
        for i in range(4):
            rollout(0.5 ** rounds[0], **({"seed": seed} if rounds[0] == i == 0 else {}))
        rounds[0] += 1
        return (Batch.stack([dataset[i] for i in torch.randint(len(dataset), (n,))]),)

    def update(batch):
        student.train()
        total = 0.0
        grads = [torch.zeros_like(p) for p in student.parameters()]
        for part in batch.split(len(batch) // CHUNKS, shuffle=False):
            soft = F.log_softmax(part.teacher_logits / TEMPERATURE, -1)
            mine = F.log_softmax(student(part.states) / TEMPERATURE, -1)
            loss = TEMPERATURE**2 * F.kl_div(mine, soft, reduction="sum", log_target=True) / len(batch)
            for held, grad in zip(grads, torch.autograd.grad(scaler.scale(loss), list(student.parameters()))):
                held += grad
            total += loss.item()
        for p, held in zip(student.parameters(), grads):
            p.grad = held
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        shadow.update_parameters(student)
        return {"kl": total, "norm": norm.item()}

    def evaluate(states):
        shadow.eval()
        return shadow(states).argmax(-1)

    update.evaluate = evaluate
    return update, draw
