"""The parts that layers are made of: attention, feed-forward, experts, state-space and delta-rule mixers, towers."""
