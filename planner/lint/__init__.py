"""Rules over a plan: loading, evaluation, suppression, findings."""
