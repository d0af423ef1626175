"""The probe of `windlass check --network-probe`: are NetworkPolicies enforced?"""
