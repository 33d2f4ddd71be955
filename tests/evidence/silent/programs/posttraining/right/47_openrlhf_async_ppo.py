"""Asynchronous RLHF in OpenRLHF's names: samples of stale weights, PPO around the trainer's own old policy, truncated correction."""
import copy
import torch, torch.nn as nn, torch.nn.functional as F
from typedbatch import Batch

class TinyLM(nn.Module):
    def __init__(self, vocab=12, d=24, out=None):
        super().__init__()
        self.tok, self.pos, self.qkv, self.out = nn.Embedding(vocab, d), nn.Embedding(16, d), nn.Linear(d, 3 * d), nn.Linear(d, out or vocab)
    def forward(self, input_ids, attention_mask, position_ids, use_cache=False):
        x, T = self.tok(input_ids) + self.pos(position_ids), input_ids.shape[1]
        allowed = (torch.ones(T, T).tril().bool() & attention_mask[:, None].bool()) | torch.eye(T).bool()
        x = x + F.scaled_dot_product_attention(*self.qkv(x).chunk(3, -1), attn_mask=allowed)
        return self.out(F.gelu(x))

P, R, EOS = 3, 5, 1

def position_ids(mask):
    return (mask.long().cumsum(-1) - 1).clamp(min=0)

def action_log_probs_of(actor, sequences, attention_mask):
    logits = actor(sequences, attention_mask, position_ids(attention_mask))[:, P - 1 : -1]
    return logits.log_softmax(-1).gather(-1, sequences[:, P:, None]).squeeze(-1)

def values_of(critic, sequences, attention_mask):  # the state before each action
    return critic(sequences, attention_mask, position_ids(attention_mask))[:, P - 1 : -1].squeeze(-1)

def masked_mean(x, mask):
    return (x * mask).sum() / mask.sum()

def setup(seed: int = 0, kl_coef=0.02, lam=0.95, eps_clip=0.2, value_clip=0.5, is_max=2.0):
    torch.manual_seed(seed)
    actor, critic = TinyLM(), TinyLM(out=1)
    initial_model, engine, queue, calls = copy.deepcopy(actor), copy.deepcopy(actor), [], [0]
    actor_optim, critic_optim = torch.optim.Adam(actor.parameters(), 1e-3), torch.optim.Adam(critic.parameters(), 3e-3)

    def generate(n=24):
        attention_mask = torch.arange(P) >= torch.randint(0, P, (n, 1))
        sequences, alive, logps = torch.randint(2, 12, (n, P)) * attention_mask, torch.ones(n, 1, dtype=torch.bool), []
        for _ in range(R):
            dist = engine(sequences, attention_mask, position_ids(attention_mask))[:, -1].log_softmax(-1)
            token = torch.multinomial(dist.exp(), 1)
            logps.append(dist.gather(1, token) * alive)
            sequences, attention_mask = torch.cat([sequences, token * alive], 1), torch.cat([attention_mask, alive], 1)
            alive = alive & (token != EOS)
        return Batch(sequences=sequences, attention_mask=attention_mask, action_mask=attention_mask[:, P:], rollout_log_probs=torch.cat(logps, 1))

    @torch.no_grad()
    def draw():
        while len(queue) < 3:  # the engine is always a few batches ahead of the trainer
            queue.append(generate())
        experience = queue.pop(0)
        calls[0] += 1
        if calls[0] % 2 == 0:
            engine.load_state_dict(actor.state_dict())
        inputs, mask = (experience.sequences, experience.attention_mask), experience.action_mask
        old, base, values = action_log_probs_of(actor, *inputs), action_log_probs_of(initial_model, *inputs), values_of(critic, *inputs) * mask
        rewards = -kl_coef * (old - base) * mask
        rewards[torch.arange(len(mask)), mask.sum(1) - 1] += ((experience.sequences[:, P:] % 2 == 0) & mask).sum(1) / mask.sum(1)
        advantages, last, after = torch.zeros_like(values), 0.0, 0.0
        for t in reversed(range(R)):  # values and rewards are 0 behind the end, where the episode terminates
            last = rewards[:, t] + after - values[:, t] + lam * last
            advantages[:, t], after = last, values[:, t]
        returns = (advantages + values) * mask
        centered = advantages - masked_mean(advantages, mask)
        advantages = centered / (masked_mean(centered**2, mask) + 1e-8).sqrt() * mask
        return (Batch(experience, action_log_probs=old, base_action_log_probs=base, values=values, returns=returns, advantages=advantages, reward=rewards.sum(1)),)

    def training_step(experience):
        mask, status = experience.action_mask, {}
        for _ in range(2):
            ratio = (action_log_probs_of(actor, experience.sequences, experience.attention_mask) - experience.action_log_probs).exp()
            correction = (experience.action_log_probs - experience.rollout_log_probs).exp().clamp(max=is_max)
            surr1, surr2 = ratio * experience.advantages, ratio.clamp(1 - eps_clip, 1 + eps_clip) * experience.advantages
            actor_loss = masked_mean(-torch.min(surr1, surr2) * correction, mask)
            values = values_of(critic, experience.sequences, experience.attention_mask)
            clipped = experience.values + (values - experience.values).clamp(-value_clip, value_clip)
            critic_loss = 0.5 * masked_mean(torch.max((clipped - experience.returns) ** 2, (values - experience.returns) ** 2), mask)
            for name, loss, model, optim in (("policy_loss", actor_loss, actor, actor_optim), ("critic_loss", critic_loss, critic, critic_optim)):
                optim.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optim.step()
                status[name] = loss.item()
        return status

    return training_step, draw
