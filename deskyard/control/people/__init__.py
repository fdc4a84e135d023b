"""Who may do what: persons with passkeys, programs with keys, and what each of them may ask for."""
