"""Defenses that aggregate neighbours in another way: robust means, smoothed logits, bounded attention."""
