"""From file updates to commits on a remote branch: one worker per branch."""
