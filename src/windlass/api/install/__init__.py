"""Objects to install: CRDs, roles, admission policies, webhook; and their reference pages."""
