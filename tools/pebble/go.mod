module deskyard.dev/tools/pebble

go 1.25

require github.com/letsencrypt/pebble/v2 v2.10.1
