"""Public trainers under audits: their own updates, with small synthetic data."""
