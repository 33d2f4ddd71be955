"""GRPO as verl's actor worker does it: sampled groups, token-mean over micro-batches, asymmetric clipping and a k3 penalty."""
import copy
import torch, torch.nn as nn, torch.nn.functional as F
from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, aggregate, map_tokens, micro_batches, token_logp
from typedbatch.rows import groups, repeat

class TinyLM(nn.Module):
    def __init__(self, vocab=12, d=24, out=None):
        super().__init__()
        self.tok, self.pos, self.qkv, self.out = nn.Embedding(vocab, d), nn.Embedding(16, d), nn.Linear(d, 3 * d), nn.Linear(d, out or vocab)
    def forward(self, input_ids, attention_mask, position_ids, use_cache=False):
        x, T = self.tok(input_ids) + self.pos(position_ids), input_ids.shape[1]
        allowed = (torch.ones(T, T).tril().bool() & attention_mask[:, None].bool()) | torch.eye(T).bool()
        x = x + F.scaled_dot_product_attention(*self.qkv(x).chunk(3, -1), attn_mask=allowed)
        return self.out(F.gelu(x))

PAD, EOS, P, R, GROUP = 0, 1, 3, 5, 4

@torch.no_grad()
def generate(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    running = torch.ones(len(ids), dtype=torch.bool)
    for _ in range(R):
        logits = model(ids, mask, (mask.long().cumsum(1) - 1).clamp(min=0))[:, -1]
        token = torch.multinomial(logits.softmax(-1), 1)[:, 0].where(running, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, running[:, None]], 1)
        running = running & (token != EOS)
    return extend(prompts, Rollouts, response_ids=ids[:, P:], response_mask=mask[:, P:], loss_mask=mask[:, P:])

def setup(seed: int = 0, clip_low=0.2, clip_high=0.28, kl_coef=0.01, ppo_mini_batch_size=16, ppo_max_token_len=60):
    torch.manual_seed(seed)
    actor_module = TinyLM()
    ref_module = copy.deepcopy(actor_module).requires_grad_(False)
    actor_optimizer = torch.optim.AdamW(actor_module.parameters(), lr=3e-3)
    step = [0]

    @torch.no_grad()
    def draw(n=8):
        step[0] += 1
        mask = torch.arange(P) >= torch.randint(0, P, (n, 1))
        prompts = Prompts(prompt_ids=torch.randint(2, 12, (n, P)) * mask, prompt_mask=mask, uid=objects(f"{step[0]}/{i}" for i in range(n)))
        data = generate(actor_module, repeat(prompts, GROUP))
        scores = ((data.response_ids == data.prompt_ids[:, -1:]) & data.response_mask).sum(1) / data.response_mask.sum(1)
        by_prompt = groups(data, "uid", size=GROUP)
        advantages = (scores - by_prompt.mean(scores)) / (by_prompt.std(scores) + 1e-6)
        old_logp = map_tokens(data, 100, lambda rows: token_logp(actor_module, rows, temperature=1.0))
        ref_logp = map_tokens(data, 100, lambda rows: token_logp(ref_module, rows, temperature=1.0))
        return (extend(data, Ready, rewards=scores, old_logp=old_logp, ref_logp=ref_logp, advantages=advantages[:, None] * data.loss_mask),)

    def update_policy(data):
        metrics = {"pg_loss": 0.0, "kl_loss": 0.0}
        for mini in data.split(ppo_mini_batch_size, rng=torch.default_generator):
            actor_optimizer.zero_grad()
            for micro in micro_batches(mini, ppo_max_token_len):
                b, total = micro.batch, micro.total_tokens
                log_prob = token_logp(actor_module, b, temperature=1.0)
                ratio = (log_prob - b.old_logp).exp()
                pg_losses = torch.max(-b.advantages * ratio, -b.advantages * ratio.clamp(1 - clip_low, 1 + clip_high))
                delta = b.ref_logp - log_prob
                pg_loss = aggregate(pg_losses, b.loss_mask, total=total)
                kl_loss = aggregate(delta.exp() - delta - 1, b.loss_mask, total=total)
                (pg_loss + kl_coef * kl_loss).backward()
                metrics["pg_loss"] += pg_loss.item()
                metrics["kl_loss"] += kl_loss.item()
            metrics["grad_norm"] = nn.utils.clip_grad_norm_(actor_module.parameters(), 1.0).item()
            actor_optimizer.step()
        return metrics

    return update_policy, draw
