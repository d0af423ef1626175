"""The IgnitionSync controller: watches, reconciles, and publishes to agents."""
