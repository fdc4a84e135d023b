// Package proxmoxve describes how the Terraform provider bpg/proxmox becomes the Pulumi plugin that PyPI's
// pulumi-proxmoxve talks to. That package's names are the contract: tests/proxmox/test_tokens.py compares them.
package proxmoxve

import (
	"context"
	"strings"
	"unicode"

	"github.com/bpg/terraform-provider-proxmox/fwprovider"
	sdkprovider "github.com/bpg/terraform-provider-proxmox/proxmoxtf/provider"
	pf "github.com/pulumi/pulumi-terraform-bridge/v3/pkg/pf/tfbridge"
	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfbridge"
	shim "github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfshim"
	sdkv2 "github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfshim/sdk-v2"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
)

// Name is what Pulumi calls the package.
const Name = "proxmoxve"

const (
	prefix       = "proxmox_"
	legacyPrefix = "proxmox_virtual_environment_"
	upstream     = "https://github.com/bpg/terraform-provider-proxmox"
)

// Version is that of the PyPI package with a v before it, set by the linker: Pulumi asks for exactly this one.
var Version = "v0.0.0"

// Provider describes the plugin; metadata is what the generator wrote, nothing while it runs.
func Provider(ctx context.Context, metadata []byte) tfbridge.ProviderInfo {
	version := strings.TrimPrefix(Version, "v")
	// The upstream is two providers in one, half on each of Terraform's SDKs.
	muxed := pf.MuxShimWithDisjointgPF(ctx, sdkv2.NewProvider(sdkprovider.ProxmoxVirtualEnvironment()), fwprovider.New(version)())
	info := tfbridge.ProviderInfo{
		P:              muxed,
		Name:           Name,
		Version:        version,
		ResourcePrefix: "proxmox",
		GitHubOrg:      "bpg",
		MetadataInfo:   tfbridge.NewProviderMetadata(metadata),
		Resources:      namedIDs(muxed.ResourcesMap()),
	}
	info.MustComputeTokens(tfbridge.Strategy{
		Resource: func(name string, resource *tfbridge.ResourceInfo) error {
			module, word := split(name)
			resource.Tok = tokens.Type(token(module, word))
			return nil
		},
		DataSource: func(name string, source *tfbridge.DataSourceInfo) error {
			module, word := split(name)
			source.Tok = tokens.ModuleMember(token(module, "get"+upper(word)))
			return nil
		},
	})
	info.SetAutonaming(255, "-")
	return info
}

// namedIDs lets a person choose the id of resources that take one: Pulumi keeps `id` for itself.
func namedIDs(resources shim.ResourceMap) map[string]*tfbridge.ResourceInfo {
	named := map[string]*tfbridge.ResourceInfo{}
	resources.Range(func(name string, resource shim.Resource) bool {
		id, found := resource.Schema().GetOk("id")
		// The SDK of the older half adds an optional id to every resource; only the framework's are meant.
		if found && (id.Required() || id.Optional()) && !strings.HasSuffix(name, "_environment_vm") {
			named[name] = &tfbridge.ResourceInfo{
				Fields:    map[string]*tfbridge.SchemaInfo{"id": {Name: "resourceId", Type: "string"}},
				ComputeID: tfbridge.DelegateIDField("resourceId", Name, upstream),
			}
		}
		return true
	})
	return named
}

// split takes a Terraform name apart: proxmox_sdn_zone_vxlan is `vxlan` in sdn/zone. What has not moved to upstream's
// short names yet is marked, since both may exist.
func split(name string) (module, word string) {
	suffix := ""
	if strings.HasPrefix(name, legacyPrefix) {
		suffix = "Legacy"
	}
	words := strings.Split(strings.TrimPrefix(strings.TrimPrefix(name, legacyPrefix), prefix), "_")
	module = strings.Join(words[:len(words)-1], "/")
	if module == "" {
		module = "index"
	}
	return module, words[len(words)-1] + suffix
}

func token(module, word string) string {
	return Name + ":" + module + "/" + word + ":" + memberCase(word)
}

// memberCase is how Pulumi writes a member: functions start small, types do not.
func memberCase(word string) string {
	if strings.HasPrefix(word, "get") && len(word) > 3 && unicode.IsUpper(rune(word[3])) {
		return word
	}
	return upper(word)
}

func upper(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
