"""Bundle to cluster: apply in stages, hooks, pruning, rollout and readiness."""
