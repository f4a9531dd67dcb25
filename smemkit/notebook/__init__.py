"""What a notebook adds: the magic ``%%smemkit``."""
