// Package codegen stands where the bridge expects Pulumi's YAML generator: see the one for C# beside it.
package codegen

import (
	"errors"

	"github.com/hashicorp/hcl/v2"
	"github.com/pulumi/pulumi/pkg/v3/codegen/pcl"
)

// GenerateProgram refuses: there is no generator here.
func GenerateProgram(*pcl.Program) (map[string][]byte, hcl.Diagnostics, error) {
	return nil, nil, errors.New("YAML is not generated here")
}
