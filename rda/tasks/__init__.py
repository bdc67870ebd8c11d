"""The paper's tasks: batches, loss, metric and goal. A task knows no unit."""
