"""What happens inside a unit: attention and discount over time, and what Lemma 1 asks of them."""
