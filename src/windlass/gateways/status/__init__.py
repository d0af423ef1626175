"""What is reported about an IgnitionSync and its gateways."""
