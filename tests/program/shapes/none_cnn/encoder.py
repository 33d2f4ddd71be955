from torch import nn


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(cfg.frames, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.fc = nn.Linear(32 * 8 * 8, cfg.features)
        # wrong: self.fc = nn.Linear(32 * 16 * 16, cfg.features)  # WRONG: two strides of 2 make 8 by 8

    def forward(self, img):
        return self.fc(self.conv(img))
