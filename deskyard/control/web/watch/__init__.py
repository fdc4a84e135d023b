"""/api/usage, prices, budgets, alerts, rules, webhooks and metrics: what Mission Control watches by itself."""
