class Config:
    frames = 3
    size = 32
    features = 64
    n_act = 5
