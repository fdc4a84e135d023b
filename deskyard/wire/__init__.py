"""Documents that machines exchange: the settings of a gateway, and what they may hold."""
