// Writes schema.json and bridge-metadata.json, which the plugin carries.
package main

import (
	"context"

	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/pf/tfgen"

	"deskyard.dev/tools/proxmoxve"
)

func main() {
	tfgen.MainWithMuxer(proxmoxve.Name, proxmoxve.Provider(context.Background(), []byte("{}")))
}
