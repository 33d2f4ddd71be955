"""Self-play: a league of players with ratings, matches, and updates from the games."""
