# The agent's shell.
case $- in *i*) ;; *) return ;; esac
HISTSIZE=10000
PS1='\u@\h:\w\$ '
alias ll='ls -l'
