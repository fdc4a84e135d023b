// Package codegen stands where the bridge expects Pulumi's C# generator.
//
// The bridge can turn examples of the documentation into C#. We generate a schema alone, so of that package we need
// the names it compiles against: the C# options that a schema may carry, and a generator that is never called.
package codegen

import (
	"errors"

	"github.com/hashicorp/hcl/v2"
	"github.com/pulumi/pulumi/pkg/v3/codegen/pcl"
)

// CSharpPackageInfo holds a package's options.
type CSharpPackageInfo struct {
	Compatibility                string            `json:"compatibility,omitempty"`
	PackageReferences            map[string]string `json:"packageReferences,omitempty"`
	Namespaces                   map[string]string `json:"namespaces,omitempty"`
	RootNamespace                string            `json:"rootNamespace,omitempty"`
	DictionaryConstructors       bool              `json:"dictionaryConstructors,omitempty"`
	ProjectReferences            []string          `json:"projectReferences,omitempty"`
	LiftSingleValueMethodReturns bool              `json:"liftSingleValueMethodReturns,omitempty"`
	RespectSchemaVersion         bool              `json:"respectSchemaVersion,omitempty"`
}

// CSharpPropertyInfo holds a property's options.
type CSharpPropertyInfo struct {
	Name string `json:"name,omitempty"`
}

// CSharpResourceInfo holds a resource's options.
type CSharpResourceInfo struct {
	Name string `json:"name,omitempty"`
}

// GenerateProgram refuses: there is no generator here.
func GenerateProgram(*pcl.Program) (map[string][]byte, hcl.Diagnostics, error) {
	return nil, nil, errors.New("C# is not generated here")
}
