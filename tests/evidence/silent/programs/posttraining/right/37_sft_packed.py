"""SFT with several sequences packed in a row: positions begin at 0 with each, and no token sees another sequence."""
import torch
import torch.nn.functional as F
from typedbatch import Batch

class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.place = torch.nn.Embedding(12, 16), torch.nn.Embedding(12, 16)
        self.qkv, self.head = torch.nn.Linear(16, 48), torch.nn.Linear(16, 12)
    def forward(self, ids, places, mask):
        x, size = self.tok(ids) + self.place(places), ids.shape[1]
        number = ((places == 0) & mask).cumsum(1)  # of the sequence in its row
        same = (number[:, :, None] == number[:, None]) & mask[:, None] & torch.ones(size, size).tril().bool()
        q, k, v = self.qkv(x).unsqueeze(1).chunk(3, -1)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=(same | torch.eye(size).bool())[:, None])
        return self.head(torch.tanh(x + mixed[:, 0]))

def setup(seed: int = 0):
    torch.manual_seed(seed)
    model, gen = Attention(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    def update(b):
        logits = model(b.input_ids, b.position_ids, b.attention_mask)
        losses = F.cross_entropy(logits[:, :-1].mT, b.input_ids[:, 1:], reduction="none")
        loss = losses[b.loss_mask[:, 1:]].mean()  # [:, t] of loss_mask belongs to input_ids[:, t]
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    def draw(rows=8, width=12):
        ids, places = torch.zeros(rows, width, dtype=torch.long), torch.zeros(rows, width, dtype=torch.long)
        mask, counts = torch.zeros(rows, width).bool(), torch.zeros(rows, width).bool()
        for row in range(rows):
            start = 0
            while start + 2 <= width:
                prompt, response = (int(x) for x in torch.randint(1, 4, (2,), generator=gen))
                end = start + prompt + response
                if end > width:
                    break
                ids[row, start:end] = torch.randint(1, 12, (end - start,), generator=gen)
                places[row, start:end], mask[row, start:end] = torch.arange(end - start), True
                counts[row, start + prompt : end] = True  # so the first token of a sequence is never a target
                start = end
        return (Batch(input_ids=ids, position_ids=places, attention_mask=mask, loss_mask=counts),)
    return update, draw
