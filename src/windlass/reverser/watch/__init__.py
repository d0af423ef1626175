"""From the API server to file updates: one watch stream per selected scope."""
