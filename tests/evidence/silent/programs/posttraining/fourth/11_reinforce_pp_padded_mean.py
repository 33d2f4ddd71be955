"""REINFORCE++: KL in the rewards, discounted returns, and normalization over the tokens of the whole batch."""
# wrong: """Advantages are normalized with a mean over all positions, padding included; only the variance is masked."""
import torch
from torch import nn

from typedbatch import checked, extend, objects
from typedbatch.posttraining import PolicyLossProtocol, Prompts, Ready, Rollouts, Scored, SequenceProtocol

V, W, N, P, R = 15, 30, 32, 3, 10
KL, GAMMA, EPS = 0.01, 1.0, 0.2


def actor():
    """A bag of the last four tokens, in order."""
    net = nn.Module()
    net.emb = nn.Embedding(V + 1, W)  # V stands for nothing
    net.mlp = nn.Sequential(nn.Linear(4 * W, 64), nn.ReLU(), nn.Linear(64, V))
    return net


def predict(net, ids, mask):
    """``[:, t]`` is about the token after ``t``."""
    known = ids.where(mask, V)
    windows = nn.functional.pad(known, (3, 0), value=V).unfold(1, 4, 1)
    return net.mlp(net.emb(windows).flatten(2))


@checked
def sequence_logp(net: nn.Module, batch: SequenceProtocol) -> torch.Tensor:
    ids, mask = torch.cat([batch.prompt_ids, batch.response_ids], 1), torch.cat([batch.prompt_mask, batch.response_mask], 1)
    logp = predict(net, ids, mask).log_softmax(-1)[:, batch.prompt_ids.shape[1] - 1 : -1]
    return logp.gather(-1, batch.response_ids[..., None])[..., 0].where(batch.response_mask, 0.0)


@torch.no_grad()
def sample(net, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    open_ = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(R):
        token = predict(net, ids, mask)[:, -1].softmax(-1).multinomial(1)[:, 0].where(open_, 0)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, open_[:, None]], 1)
        open_ = open_ & (token != 1)
    start = prompts.prompt_ids.shape[1]
    answer = mask[:, start:]
    return extend(prompts, Rollouts, response_ids=ids[:, start:], response_mask=answer, loss_mask=answer, truncated=open_)


def judge(rollouts):
    """Repetitions of the token before are bad; to stop within the limit is good."""
    before = torch.cat([rollouts.prompt_ids[:, -1:], rollouts.response_ids[:, :-1]], 1)
    step = (rollouts.response_ids - before).abs()
    nice = ((step == 1) | (step == 2)) & rollouts.response_mask
    return extend(rollouts, Scored, rewards=nice.sum(1) / rollouts.response_mask.sum(1) + 0.3 * ~rollouts.truncated + 0.2)


def cumulative_returns(rewards, mask):
    returns, ahead = torch.zeros_like(rewards), torch.zeros(len(rewards))
    for t in range(rewards.shape[1] - 1, -1, -1):
        ahead = (rewards[:, t] + GAMMA * ahead) * mask[:, t]
        returns[:, t] = ahead
    return returns


def normalize(advantages, mask):
    actions = mask.sum()
    mean = (advantages * mask).sum() / actions
    # wrong: mean = advantages.mean()
    variance = ((advantages - mean).pow(2) * mask).sum() / actions
    return (advantages - mean) * variance.clamp(min=1e-8).rsqrt() * mask


@torch.no_grad()
def experience(net, initial, scored):
    old, ref = sequence_logp(net, scored), sequence_logp(initial, scored)
    rewards = -KL * (old - ref) * scored.loss_mask
    last = scored.response_mask.sum(1, keepdim=True) - 1
    rewards = rewards.scatter_add(1, last, scored.rewards[:, None])
    returns = cumulative_returns(rewards, scored.loss_mask)
    return extend(
        scored, Ready, old_logp=old, ref_logp=ref, returns=returns, advantages=normalize(returns, scored.loss_mask)
    )


@checked
def policy_loss(batch: PolicyLossProtocol, logp: torch.Tensor) -> torch.Tensor:
    ratio = torch.exp(logp - batch.old_logp)
    surrogate = torch.minimum(ratio * batch.advantages, ratio.clamp(1 - EPS, 1 + EPS) * batch.advantages)
    return -surrogate[batch.loss_mask].mean()


def new_prompts():
    mask = torch.arange(P) >= torch.randint(P, (N, 1))
    return Prompts(prompt_ids=torch.randint(2, V, (N, P)) * mask, prompt_mask=mask, uid=objects(range(N)))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    net, initial = actor(), actor().requires_grad_(False)
    initial.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)

    def update(scored):
        batch = experience(net, initial, scored)
        for _ in range(2):
            loss = policy_loss(batch, sequence_logp(net, batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return {"loss": loss.item(), "reward": scored.rewards.mean().item(), "return": batch.returns.mean().item()}

    return update, lambda: (judge(sample(net, new_prompts())),)


def stages(seed: int = 0):
    torch.manual_seed(seed)
    net, prompts = actor(), new_prompts()
    rollouts = sample(net, prompts)
    return {"logp": (sequence_logp, net, rollouts), "reward": (judge, rollouts), "sample": (lambda p: sample(net, p), prompts)}
