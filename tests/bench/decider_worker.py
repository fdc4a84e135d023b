"""The worker of Mission Control, which brings a gateway where `ssh_config` in LAB leads the list of who answers."""

from deskyard.control.jobs import worker
from tests.bench import decider

if __name__ == "__main__":
    decider.lead()
    worker.main()
