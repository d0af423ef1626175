"""What a desk needs: a cluster, a git server, a demo."""
