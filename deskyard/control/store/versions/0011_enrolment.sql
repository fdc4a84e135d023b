-- What is kept of a link is no longer what the worker is shown of it: who reads this table can use no link by it.
update enrolment set token_hash = sha256(token_hash);
