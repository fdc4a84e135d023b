module deskyard.dev/tools/restic

go 1.25

require github.com/restic/restic v0.18.1
