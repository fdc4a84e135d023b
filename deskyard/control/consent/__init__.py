"""Operations that wait until another person agrees: what is answered, and the call that answers it."""
