"""Which unit suits people's own sequences: runs on equal terms, baselines, and advice in words."""
