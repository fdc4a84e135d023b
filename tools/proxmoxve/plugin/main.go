// The plugin that Pulumi's engine starts.
package main

import (
	"context"
	_ "embed"

	pf "github.com/pulumi/pulumi-terraform-bridge/v3/pkg/pf/tfbridge"

	"deskyard.dev/tools/proxmoxve"
)

//go:embed schema.json
var schema []byte

//go:embed bridge-metadata.json
var metadata []byte

func main() {
	ctx := context.Background()
	pf.MainWithMuxer(ctx, proxmoxve.Name, proxmoxve.Provider(ctx, metadata), schema)
}
